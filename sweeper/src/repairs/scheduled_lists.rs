//! Lists that every run of a scheduled job reads anew, copied to a place of their own: where uploads are, they would be
//! removed one day (SPEC 5.6, 6.20). The job is there first, so whatever breaks off is removed with it; a copy that lost
//! against another goes with it as well.

use super::due_schedules::{behind_job, job_named, scheduled_jobs};
use crate::repair::{About, Fixed, Found, Look, Pace, Repair, job_of};
use crate::sweep::Sweep;
use async_trait::async_trait;
use conveyor_domain::repair::{Finding, Kind, Subject};
use conveyor_domain::{Command, JobId, JobStatus, ScheduleChange, Staged};
use conveyor_store::port::{BlobKey, JobView, Stored};
use conveyor_store::{Error, Result};

pub(super) struct ScheduledLists;

#[async_trait]
impl Repair for ScheduledLists {
    fn about(&self) -> About {
        About::new("scheduled_lists", Kind::Upkeep, Pace::Slowly)
    }

    async fn find(&self, look: &Look<'_>, from: Option<String>) -> Result<Found> {
        let (due, next) = scheduled_jobs(look, from).await?;
        let mut found = Found { next, ..Found::default() };
        let looks = due.iter().filter_map(job_named).map(|job| (Subject::Job(job), self.explain(look, job)));
        if let Some(last) = found.look_at(self, look, looks.collect()).await? {
            found.next = Some(behind_job(&due, last));
        }
        Ok(found)
    }

    async fn fix(&self, sweep: &Sweep<'_>, finding: &Finding) -> Result<Fixed> {
        let (job, backend) = (job_of(finding)?, sweep.backend);
        let seen = backend.store.job(None, job).await?.and_then(|view| to_keep(&view).cloned());
        let Some(seen) = seen else { return Ok(Fixed::NOTHING) };
        let kept = copy(sweep, job, &seen).await?;
        let change = Command::Schedule(ScheduleChange::Kept { seen, kept });
        match backend.store.apply(job, change, sweep.clock.now()).await {
            Ok(_) => Ok(Fixed::ONE),
            Err(Error::Refused(_) | Error::NotFound) => Ok(Fixed::NOTHING),
            Err(error) => Err(error),
        }
    }
}

fn to_keep(view: &JobView) -> Option<&Staged> {
    let deleted = view.job.status == JobStatus::Deleted;
    let schedule = view.job.spec.schedule.as_ref().filter(|_| !deleted)?;
    schedule.list_to_keep().map(|source| &source.staged)
}

/// The bytes that are pinned, and no others.
async fn copy(sweep: &Sweep<'_>, job: JobId, from: &Staged) -> Result<Staged> {
    let blobs = &sweep.backend.blobs;
    let key: BlobKey = from.object.parse().map_err(|_| Error::Corrupt("the key of a list".to_owned()))?;
    let to = BlobKey::template(job, sweep.clock.now());
    let Stored { size, etag } = blobs.put_stream(&to, blobs.read_pinned(&key, &from.etag, 0).await?).await?;
    match size == from.size {
        true => Ok(Staged { count: from.count.clone(), ..Staged::new(to.to_string(), size, etag) }),
        false => Err(Error::Corrupt(format!("a list of {} bytes became one of {size}", from.size))),
    }
}

impl ScheduledLists {
    async fn explain(&self, look: &Look<'_>, job: JobId) -> Result<Option<Finding>> {
        let view = look.backend.store.job(None, job).await?;
        if view.as_ref().and_then(to_keep).is_none() {
            return Ok(None);
        }
        Ok(Some(self.about().finding(
            Subject::Job(job),
            "its list is where lists are removed when they are old",
            "copies it to a place of its own",
        )))
    }
}
