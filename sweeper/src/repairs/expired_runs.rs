//! Runs that ended so long ago that their tasks and results are past their time (SPEC 6.16). What was counted stays.

use super::abandoned_submits::earlier;
use super::{remove_queue, remove_rows};
use crate::facts;
use crate::repair::{About, Fixed, Found, Look, Pace, Repair, page_due_runs, run_of};
use crate::sweep::Sweep;
use async_trait::async_trait;
use conveyor_domain::repair::{Finding, Kind};
use conveyor_domain::{Run, RunStatus, Storage, Timestamp, limits};
use conveyor_store::port::{BlobKey, Chore, Mark, Removal};
use conveyor_store::{Backend, Result};

pub(super) struct ExpiredRuns;

#[async_trait]
impl Repair for ExpiredRuns {
    fn about(&self) -> About {
        About::new("expired_runs", Kind::Upkeep, Pace::Slowly)
    }

    async fn find(&self, look: &Look<'_>, from: Option<String>) -> Result<Found> {
        let kept = facts::span(limits::ROWS_KEPT);
        let finding = |subject| {
            self.about().finding(
                subject,
                format!("the run ended more than {kept} ago"),
                "removes its tasks and results; what was counted stays",
            )
        };
        let before = cutoff(look.backend, look.removal_time().await?);
        let chore = Chore::ExpiredRuns { ended_before: before };
        page_due_runs(look, chore, from, |active| is_expired(&active.run, before), finding).await
    }

    async fn fix(&self, sweep: &Sweep<'_>, finding: &Finding) -> Result<Fixed> {
        let (key, backend) = (run_of(finding)?, sweep.backend);
        let before = cutoff(backend, sweep.removal_time().await?);
        let of = backend.store.run(key.job, key.run).await?;
        if of.is_none_or(|of| !is_expired(&of.run, before)) {
            return Ok(Fixed::NOTHING);
        }
        // Once more: a ref that was sent late has made it anew.
        if !remove_queue(sweep, key.run).await? {
            return Ok(Fixed::Unfinished);
        }
        if !remove_rows(sweep, Removal::Run(key)).await? {
            return Ok(Fixed::Unfinished);
        }
        backend.blobs.delete_under(&BlobKey::run_prefix(key.job, key.run)).await?;
        backend.store.mark(key, Mark::RowsGone(Storage::Expired)).await?;
        Ok(Fixed::ONE)
    }
}

/// Not before the store has had the time to do it by itself, which costs less.
fn cutoff(backend: &Backend, now: Timestamp) -> Timestamp {
    earlier(now, limits::ROWS_KEPT.saturating_add(backend.capabilities.removes_by_itself_within))
}

/// A run that was deleted goes its own way.
fn is_expired(run: &Run, before: Timestamp) -> bool {
    let ended = run.status.is_terminal() && run.status != RunStatus::Deleted;
    ended && run.storage == Storage::Kept && run.updated < before
}
