//! Deleted jobs: rows first, then objects, the job itself last, so that a crash anywhere resumes (SPEC 6.6).

use super::{remove_objects, remove_queue, remove_rows};
use crate::repair::{About, Fixed, Found, Look, Pace, Repair, Scope, job_of, key_of, page_due, runs_of};
use crate::sweep::Sweep;
use async_trait::async_trait;
use conveyor_domain::repair::{Finding, Kind, Subject};
use conveyor_domain::{JobId, JobStatus};
use conveyor_store::Result;
use conveyor_store::port::{Chore, Mark, Removal};

pub(super) struct DeletedJobs;

#[async_trait]
impl Repair for DeletedJobs {
    fn about(&self) -> About {
        About::new("deleted_jobs", Kind::Upkeep, Pace::Slowly)
    }

    async fn find(&self, look: &Look<'_>, from: Option<String>) -> Result<Found> {
        let finding = |subject| {
            self.about().finding(
                subject,
                "the job was deleted, and something of it is still stored",
                "removes its queues, rows and objects, then the job",
            )
        };
        match look.scope {
            Scope::All => page_due(look, Chore::DeletedJobs, from, finding).await,
            Scope::Job(job) => {
                let view = look.backend.store.job(None, job).await?;
                let deleted = view.filter(|view| view.job.status == JobStatus::Deleted);
                Ok(Found {
                    findings: deleted.map(|_| finding(Subject::Job(job))).into_iter().collect(),
                    ..Found::default()
                })
            }
        }
    }

    async fn fix(&self, sweep: &Sweep<'_>, finding: &Finding) -> Result<Fixed> {
        let (job, backend) = (job_of(finding)?, sweep.backend);
        if !remove_rows(sweep, Removal::Job(job)).await? {
            return Ok(Fixed::Unfinished);
        }
        remove_objects(sweep, job).await?;
        // Its queues are mostly gone by now, as those of other runs that ended. If not, they are what keeps it.
        let gone = backend.store.forget_job(job, sweep.clock.now()).await?
            || (remove_queues(sweep, job).await? && backend.store.forget_job(job, sweep.clock.now()).await?);
        if !gone {
            return Ok(Fixed::Unfinished);
        }
        // Once more, now that no settle can find a row: a worker may have written an object since, and died before it took
        // it back.
        remove_objects(sweep, job).await?;
        Ok(Fixed::ONE)
    }
}

async fn remove_queues(sweep: &Sweep<'_>, job: JobId) -> Result<bool> {
    for key in runs_of(sweep.backend, job).await?.iter().map(key_of) {
        if !remove_queue(sweep, key.run).await? {
            return Ok(false);
        }
        sweep.backend.store.mark(key, Mark::QueueGone).await?;
    }
    Ok(true)
}
