use conveyor_domain::shards::Sharding;
use std::time::Duration;

/// What a backend is like, where that decides what is best. Plain data, known when it is opened.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities {
    /// Over how many partitions the rows of a job's tasks are best spread.
    pub sharding: Sharding,
    pub settles_at_once: SettlesAtOnce,
    /// How much later than their time it may remove old rows by itself. Until then, there is no need to.
    pub removes_by_itself_within: Duration,
    /// The most that one receive returns.
    pub receive_max: usize,
    /// Messages that one receive brings for the price of one. A worker waits a little to receive as many.
    pub receive_batch: usize,
    /// What every part of an object but the last must have.
    pub part_min_bytes: u64,
}

/// How many groups of settles a worker writes at once. Fewer means larger groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettlesAtOnce {
    pub in_all: usize,
    pub of_a_run: usize,
}
