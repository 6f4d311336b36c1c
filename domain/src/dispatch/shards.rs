//! Over how many partitions the rows of a job's tasks are spread, on a store that has partitions (SPEC 5.3).

use crate::limits::SHARDS_MAX;

/// A partition takes about 250 tasks a second: a list of this many keeps one busy for a minute.
const TASKS_A_SHARD: u64 = 15_625;
/// What a job gets that may become as large as it likes.
const OPEN_SHARDS: u32 = 16;

/// What a store wants of this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharding {
    /// It has no partitions.
    Whole,
    /// By how large a job may become, and never fewer than this.
    Spread { min: u32 },
}

impl Sharding {
    /// Of a new job, whose it stays. A power of two, 1 for every small closed job: one partition, one query a page.
    pub fn task_shards(self, expected_tasks: u64, open: bool) -> u32 {
        let Sharding::Spread { min } = self else { return 1 };
        let wanted = u32::try_from(expected_tasks.div_ceil(TASKS_A_SHARD)).unwrap_or(SHARDS_MAX);
        let least = if open { OPEN_SHARDS } else { 1 };
        wanted.min(SHARDS_MAX).max(least).next_power_of_two().max(min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_large_and_open_jobs_are_spread() {
        let task_shards = |expected, open| Sharding::Spread { min: 1 }.task_shards(expected, open);
        for (expected, shards) in
            [(0, 1), (9_999, 1), (15_625, 1), (15_626, 2), (250_000, 16), (1_000_000, 64)]
        {
            assert_eq!(task_shards(expected, false), shards, "{expected}");
        }
        assert_eq!(task_shards(u64::MAX, false), SHARDS_MAX);
        assert_eq!(task_shards(10, true), 16);
        assert_eq!(task_shards(1_000_000, true), 64);
        assert_eq!(Sharding::Spread { min: 4 }.task_shards(10, false), 4);
        assert_eq!(Sharding::Whole.task_shards(1_000_000, true), 1);
    }
}
