//! What came late of jobs that are gone: an object of a worker that died, a chunk of an ingester that stalled, a ref that
//! made its queue anew (SPEC 6.6). Each is looked for a few times, then the job is forgotten for good.

use super::{remove_objects, remove_queue, remove_rows};
use crate::facts;
use crate::repair::{About, Fixed, Found, Look, Pace, Repair, Scope, job_of, page, window};
use crate::sweep::Sweep;
use async_trait::async_trait;
use conveyor_domain::repair::{Finding, Kind, Subject};
use conveyor_domain::{JobId, Timestamp, limits};
use conveyor_store::Result;
use conveyor_store::port::{Removal, Tombstone};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

#[derive(Default)]
pub(super) struct Leftovers {
    /// Those on the last page: which runs they had is nowhere else.
    found: Mutex<HashMap<JobId, Tombstone>>,
}

#[async_trait]
impl Repair for Leftovers {
    fn about(&self) -> About {
        About::new("leftovers", Kind::Upkeep, Pace::Slowly)
    }

    async fn find(&self, look: &Look<'_>, from: Option<String>) -> Result<Found> {
        if look.scope != Scope::All {
            // Whoever asks for a job asks for one that can be seen.
            return Ok(Found::default());
        }
        let (now, window) = (look.removal_time().await?, window(look, from)?);
        let due = look.backend.store.tombstones(now, window.1).await?;
        let found = page(due.iter().collect(), window, |tombstone: &Tombstone| {
            let gone = facts::ago(tombstone.gone, now);
            self.about().finding(
                Subject::Job(tombstone.job),
                format!("the job was removed {gone}, and is to be looked at again"),
                "removes what came late of it",
            )
        });
        let due = due.into_iter().map(|tombstone| (tombstone.job, tombstone));
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = due.collect();
        Ok(found)
    }

    async fn fix(&self, sweep: &Sweep<'_>, finding: &Finding) -> Result<Fixed> {
        let (job, backend) = (job_of(finding)?, sweep.backend);
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner).get(&job).cloned();
        let Some(tombstone) = found else { return Ok(Fixed::NOTHING) };
        if !remove_rows(sweep, Removal::Job(job)).await? {
            return Ok(Fixed::Unfinished);
        }
        for run in &tombstone.runs {
            if !remove_queue(sweep, *run).await? {
                return Ok(Fixed::Unfinished);
            }
        }
        remove_objects(sweep, job).await?;
        let next = next_look(&tombstone, sweep.removal_time().await?);
        backend.store.looked_at(&tombstone, next).await?;
        Ok(Fixed::ONE)
    }
}

/// When it is to be looked at after this look. `None`: never again.
fn next_look(tombstone: &Tombstone, now: Timestamp) -> Option<Timestamp> {
    let later = limits::TOMBSTONE_LOOKS.get(tombstone.looks as usize + 1..).unwrap_or_default();
    let looks = later.iter().copied().chain([limits::TOMBSTONE_KEPT]);
    looks.map(|after| tombstone.gone.after(after)).find(|due| *due > now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const HOUR: u64 = 3600;
    const DAY: u64 = 24 * HOUR;

    fn next(looks: u32, now_s: u64) -> Option<u64> {
        let (job, gone) = (JobId::from_bytes([1; 16]), Timestamp(0));
        let tombstone = Tombstone { job, runs: Vec::new(), gone, looks };
        let now = gone.after(Duration::from_secs(now_s));
        next_look(&tombstone, now).map(|due| gone.until(due).as_secs())
    }

    #[test]
    fn a_tombstone_is_looked_at_after_an_hour_a_day_a_week_and_then_forgotten() {
        assert_eq!(next(0, HOUR), Some(DAY));
        assert_eq!(next(1, DAY), Some(7 * DAY));
        assert_eq!(next(2, 7 * DAY), Some(30 * DAY));
        assert_eq!(next(3, 30 * DAY), None);
    }

    #[test]
    fn looks_that_were_missed_are_not_made_up_for() {
        assert_eq!(next(0, 3 * DAY), Some(7 * DAY));
        assert_eq!(next(0, 31 * DAY), None, "nothing of it can come any more");
    }
}
