//! What the rows of a run say against what its counters say (SPEC 6.14).
//!
//! A settle changes a row and a counter in one step, so the difference between the two never changes while work goes on:
//! found once, it can be made up for at any later time, by adding it.

use crate::{Counts, FailureClass};

/// The rows of a run, counted at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCounts {
    pub pending: u32,
    pub processing: u32,
    pub settled: Counts,
    /// Failed rows that do not say why: earlier versions kept that in the counters alone.
    pub unclassified: u32,
}

impl RowCounts {
    pub fn failed(&self) -> u32 {
        self.settled.failed_total() + self.unclassified
    }

    pub fn unfinished(&self) -> u32 {
        self.pending + self.processing
    }

    pub fn all(&self) -> u32 {
        self.unfinished() + self.settled.successful + self.failed()
    }
}

/// Sums of counter rows as they are stored, and differences of them. A counter that was damaged can be anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub successful: i64,
    pub failed: [i64; FailureClass::ALL.len()],
}

impl Sums {
    pub fn failed_total(&self) -> i64 {
        self.failed.iter().fold(0, |sum: i64, n| sum.saturating_add(*n))
    }

    pub fn completed(&self) -> i64 {
        self.successful.saturating_add(self.failed_total())
    }

    pub fn is_zero(&self) -> bool {
        *self == Sums::default()
    }

    #[must_use]
    pub fn plus(mut self, other: Sums) -> Sums {
        self.successful = self.successful.saturating_add(other.successful);
        for (mine, theirs) in self.failed.iter_mut().zip(other.failed) {
            *mine = mine.saturating_add(theirs);
        }
        self
    }

    /// As readers have it: nobody has done less than nothing.
    pub fn counts(&self) -> Counts {
        let whole = |n: i64| u32::try_from(n.max(0)).unwrap_or(u32::MAX);
        Counts { successful: whole(self.successful), failed: self.failed.map(whole) }
    }
}

impl From<Counts> for Sums {
    fn from(counts: Counts) -> Sums {
        Sums { successful: counts.successful.into(), failed: counts.failed.map(i64::from) }
    }
}

/// What has to be added to the counters so that they say what the rows say.
pub fn drift(rows: &RowCounts, counters: &Sums) -> Sums {
    let settled = Sums::from(rows.settled);
    let mut drift =
        Sums { successful: settled.successful.saturating_sub(counters.successful), ..Sums::default() };
    if rows.unclassified == 0 {
        for (class, missing) in drift.failed.iter_mut().enumerate() {
            *missing = settled.failed[class].saturating_sub(counters.failed[class]);
        }
    } else {
        // Which class a row belongs to only the counters know: what is wrong in all is put down as `other`.
        let missing = i64::from(rows.failed()).saturating_sub(counters.failed_total());
        drift.failed[FailureClass::Other as usize] = missing;
    }
    drift
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rows(successful: u32, failed: [u32; 7], unclassified: u32) -> RowCounts {
        RowCounts { pending: 3, processing: 2, settled: Counts { successful, failed }, unclassified }
    }

    proptest! {
        #[test]
        fn what_is_added_makes_them_agree(
            successful in 0u32..1000, failed: [u8; 7], counted in -1000i64..1000, wrong: [i16; 7],
        ) {
            let rows = rows(successful, failed.map(u32::from), 0);
            let counters = Sums { successful: counted, failed: wrong.map(i64::from) };
            let mended = counters.plus(drift(&rows, &counters));
            prop_assert_eq!(mended.counts(), rows.settled);
            prop_assert!(drift(&rows, &mended).is_zero());
        }
    }

    #[test]
    fn rows_that_do_not_say_why_they_failed_leave_right_counters_alone() {
        let counters = Sums { successful: 4, failed: [1, 2, 0, 0, 0, 0, 0] };
        assert!(drift(&rows(4, [0; 7], 3), &counters).is_zero());
        let missing = drift(&rows(4, [0, 1, 0, 0, 0, 0, 0], 4), &counters);
        assert_eq!((missing.successful, missing.failed), (0, [0, 0, 0, 0, 0, 0, 2]));
    }

    #[test]
    fn counters_of_any_size_are_shown_as_very_many_and_never_as_few() {
        let damaged = Sums { successful: i64::MAX, failed: [i64::MAX, 1, 0, 0, 0, 0, 0] };
        assert_eq!(damaged.completed(), i64::MAX);
        assert_eq!(damaged.counts().completed(), u32::MAX);
        assert!(drift(&rows(1, [0; 7], 0), &damaged).successful < 0);
    }

    #[test]
    fn a_sum_below_nothing_is_shown_as_nothing() {
        assert_eq!(Sums { successful: -4, ..Sums::default() }.counts(), Counts::default());
    }
}
