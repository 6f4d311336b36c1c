//! Counters against rows (SPEC 6.14).

use super::Rebuilder;
use super::failure::{Failure, patiently};
use conveyor_domain::{Job, Run, Sums, proof, retention};
use conveyor_store::port::{RunKey, Tally};
use std::time::Duration;

/// Somebody else may correct at the same time; nobody does so for ever.
const TRIES_MAX: u32 = 10;

impl Rebuilder {
    /// The rows of a run, counted.
    pub async fn tally(&self, key: RunKey) -> Result<Tally, Failure> {
        let tally = patiently(|| self.backend.store.tally(key, false)).await?;
        tally.ok_or_else(|| Failure::not_rebuildable("the run went away meanwhile"))
    }

    /// Refuses a run of which rows may have gone by their age. They were settled and counted: put anew, they would be
    /// fetched again, failed as lost, or taken out of the counters, which alone remember them.
    pub fn check_rows_kept(&self, job: &Job, run: &Run) -> Result<(), Failure> {
        let one_by_one = self.backend.capabilities.removes_by_itself_within > Duration::ZERO;
        match retention::can_be_proved(job, run, one_by_one, self.began) {
            true => Ok(()),
            false => Err(Failure::past_its_time()),
        }
    }

    /// Makes the counters say what the rows say. By how much they were wrong.
    pub async fn prove(&self, key: RunKey, job: &Job) -> Result<u64, Failure> {
        let mut corrected = 0;
        for _ in 0..TRIES_MAX {
            let tally = self.tally(key).await?;
            let missing = proof::drift(&tally.rows, &tally.counters);
            if missing.is_zero() {
                return Ok(corrected);
            }
            self.check_rows_kept(job, &tally.run)?;
            let now = self.clock.now();
            if patiently(|| self.backend.store.correct(key, missing, tally.revision, now)).await? {
                corrected += size(&missing);
            }
        }
        Err(Failure::unavailable("somebody else goes on correcting the counters of the run"))
    }
}

/// By how much counters are wrong from which this is missing.
pub fn size(sums: &Sums) -> u64 {
    sums.failed.iter().fold(sums.successful.unsigned_abs(), |all, class| all + class.unsigned_abs())
}
