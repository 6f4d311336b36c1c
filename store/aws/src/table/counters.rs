//! What was counted of a run: the sum of its counter rows, each of which has one writer at a time.

use super::Table;
use super::keys;
use super::read::Range;
use super::rows::decode_counts;
use conveyor_domain::run::Counts;
use conveyor_domain::{RunId, WorkerId};
use conveyor_store::Result;
use conveyor_store::port::RunKey;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

impl Table {
    /// Counts only grow, and never past the total: whoever reads the run after them sees no more done than there is.
    pub async fn counts(&self, key: RunKey) -> Result<Counts> {
        let range = Range::of(keys::job_partition(key.job), &keys::counters(key.run));
        let rows = self.all(&range).await?;
        rows.iter().try_fold(Counts::default(), |sum, row| Ok(sum.plus(decode_counts(row)?)))
    }
}

type Taken = HashMap<(RunId, WorkerId), BTreeSet<usize>>;

/// Which of a worker's counter rows of a run are being written to. Two transactions on one row would get in each other's
/// way, so each takes a row of its own.
#[derive(Debug, Default)]
pub struct Lanes(Arc<Mutex<Taken>>);

#[derive(Debug)]
pub struct Lane {
    lanes: Arc<Mutex<Taken>>,
    of: (RunId, WorkerId),
    pub number: usize,
}

impl Lanes {
    pub fn take(&self, run: RunId, worker: WorkerId) -> Lane {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lanes = taken.entry((run, worker)).or_default();
        let number = (0..).find(|n| !lanes.contains(n)).unwrap_or_default();
        lanes.insert(number);
        Lane { lanes: self.0.clone(), of: (run, worker), number }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let mut taken = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lanes) = taken.get_mut(&self.of) {
            lanes.remove(&self.number);
            if lanes.is_empty() {
                taken.remove(&self.of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_at_once_have_the_same_lane_and_lanes_are_used_again() {
        let (lanes, run, worker) =
            (Lanes::default(), RunId::from_bytes([1; 16]), WorkerId::from_bytes([2; 16]));
        let (a, b) = (lanes.take(run, worker), lanes.take(run, worker));
        assert_eq!((a.number, b.number), (0, 1));
        assert_eq!(lanes.take(RunId::from_bytes([3; 16]), worker).number, 0);
        drop(a);
        assert_eq!(lanes.take(run, worker).number, 0);
        drop(b);
        assert!(lanes.0.lock().unwrap().is_empty());
    }
}
