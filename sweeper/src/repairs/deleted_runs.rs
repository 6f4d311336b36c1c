//! Runs that were deleted while their job was not: queue, rows, objects, and last the mark that nothing of it is left
//! (SPEC 6.6).

use super::{remove_queue, remove_rows};
use crate::repair::{About, Fixed, Found, Look, Pace, Repair, page_due_runs, run_of};
use crate::sweep::Sweep;
use async_trait::async_trait;
use conveyor_domain::repair::{Finding, Kind};
use conveyor_domain::{JobStatus, RunStatus, Storage};
use conveyor_store::Result;
use conveyor_store::port::{ActiveRun, BlobKey, Chore, Mark, Removal};

/// The run that a job is accepted with.
const FIRST: u32 = 1;

pub(super) struct DeletedRuns;

#[async_trait]
impl Repair for DeletedRuns {
    fn about(&self) -> About {
        About::new("deleted_runs", Kind::Upkeep, Pace::Slowly)
    }

    async fn find(&self, look: &Look<'_>, from: Option<String>) -> Result<Found> {
        let finding = |subject| {
            self.about().finding(
                subject,
                "the run was deleted, and something of it is still stored",
                "removes its queue, rows and objects",
            )
        };
        page_due_runs(look, Chore::DeletedRuns, from, is_left, finding).await
    }

    async fn fix(&self, sweep: &Sweep<'_>, finding: &Finding) -> Result<Fixed> {
        let (key, backend) = (run_of(finding)?, sweep.backend);
        let of = backend.store.run(key.job, key.run).await?;
        let Some(sequence) = of.filter(|of| of.run.status == RunStatus::Deleted).map(|of| of.run.sequence)
        else {
            return Ok(Fixed::NOTHING);
        };
        if !remove_queue(sweep, key.run).await? {
            return Ok(Fixed::Unfinished);
        }
        backend.store.mark(key, Mark::QueueGone).await?;
        if !remove_rows(sweep, Removal::Run(key)).await? {
            return Ok(Fixed::Unfinished);
        }
        if sequence == FIRST {
            // What the job was accepted with would bring it back, if its rows were lost.
            backend.blobs.delete(&BlobKey::accepted(key.job)).await?;
        }
        let objects = BlobKey::run_prefix(key.job, key.run);
        backend.blobs.delete_under(&objects).await?;
        backend.store.mark(key, Mark::RowsGone(Storage::Removed)).await?;
        // Once more: a worker may have written an object since, and died before it took it back.
        backend.blobs.delete_under(&objects).await?;
        Ok(Fixed::ONE)
    }
}

/// Those of a deleted job go with it.
fn is_left(active: &ActiveRun) -> bool {
    active.run.status == RunStatus::Deleted
        && active.run.storage != Storage::Removed
        && active.job.status != JobStatus::Deleted
}
