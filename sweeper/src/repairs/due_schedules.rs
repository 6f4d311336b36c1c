//! Schedules whose time has come (SPEC 6.20): each fire makes one run, or is skipped because the run before has not ended.
//! Both are one transaction that moves the schedule on, so whoever is second finds nothing to do.

use crate::repair::{Fixed, Found, Look, Next, Pace, Repair, Scope, Seen, job_of, window};
use crate::sweep::Sweep;
use async_trait::async_trait;
use conveyor_domain::repair::{Finding, Kind, Subject};
use conveyor_domain::{Command, JobId, JobStatus, RecordKind, ScheduleChange, Timestamp};
use conveyor_store::port::{JobView, StartRun};
use conveyor_store::template::expected_tasks;
use conveyor_store::{Error, Result};
use futures::FutureExt;

pub(super) struct DueSchedules;

#[async_trait]
impl Repair for DueSchedules {
    fn name(&self) -> &'static str {
        "due_schedules"
    }

    fn kind(&self) -> Kind {
        Kind::Upkeep
    }

    fn pace(&self) -> Pace {
        Pace::Promptly
    }

    async fn find(&self, look: &Look<'_>, from: Option<String>) -> Result<Found> {
        let (jobs, next) = scheduled_jobs(look, from).await?;
        let mut found = Found { next, ..Found::default() };
        let looks = jobs.into_iter().map(|job| {
            let told = async move { self.explain(look, job).await.map(Seen::from) };
            (Subject::Job(job), told.boxed())
        });
        found.look_at(self, look, looks.collect()).await?;
        Ok(found)
    }

    async fn fix(&self, sweep: &Sweep<'_>, finding: &Finding) -> Result<Fixed> {
        let (job, now) = (job_of(finding)?, sweep.clock.now());
        let Some(view) = sweep.backend.store.any_job(job).await? else { return Ok(Fixed::NOTHING) };
        let Some(seen) = due(&view, now) else { return Ok(Fixed::NOTHING) };
        match fire(sweep, &view, seen, now).await {
            Ok(()) => Ok(Fixed::ONE),
            // Somebody was quicker, or it is no longer to be done. What is left of it, the next sweep finds.
            Err(Error::Refused(_) | Error::NotFound) => Ok(Fixed::NOTHING),
            Err(error) => Err(error),
        }
    }
}

/// Jobs whose schedule somebody has to look at; or the one that is looked at.
pub(super) async fn scheduled_jobs(
    look: &Look<'_>,
    from: Option<String>,
) -> Result<(Vec<JobId>, Option<Next>)> {
    if let Scope::Job(job) = look.scope {
        return Ok((vec![job], None));
    }
    let (behind, end) = window(look, from)?;
    let records = look.backend.store.due_records(RecordKind::ScheduledJob, look.now(), end).await?;
    let next = (records.len() >= end as usize).then_some(Next::Behind(behind));
    let mut jobs = Vec::new();
    for record in records.into_iter().skip(behind as usize) {
        match record.key.id.parse() {
            Ok(job) => jobs.push(job),
            Err(_) => tracing::error!(id = record.key.id, "a record of a schedule names no job"),
        }
    }
    Ok((jobs, next))
}

/// The fire that is due, if there is one. The record only says where to look.
fn due(view: &JobView, now: Timestamp) -> Option<Timestamp> {
    let schedule = view.job.spec.schedule.as_ref().filter(|_| view.job.status != JobStatus::Deleted)?;
    schedule.due().filter(|due| *due <= now)
}

async fn fire(sweep: &Sweep<'_>, view: &JobView, seen: Timestamp, now: Timestamp) -> Result<()> {
    let store = &sweep.backend.store;
    let job = view.job.id;
    if view.latest.run.goes_on() {
        let skip = Command::Schedule(ScheduleChange::Skip { seen });
        return store.apply(job, skip, now).await.map(drop);
    }
    let Some(schedule) = &view.job.spec.schedule else { return Ok(()) };
    let expected = expected_tasks(&**store, &view.job).await?;
    let (run, first) = schedule.run_of_fire(seen, view.latest.run.id, expected);
    let start = StartRun { job, run, tasks: Vec::new(), log: Some(first), once: None };
    store.start_run(start, now).await.map(drop)
}

impl DueSchedules {
    async fn explain(&self, look: &Look<'_>, job: JobId) -> Result<Option<Finding>> {
        let Some(view) = look.backend.store.any_job(job).await? else { return Ok(None) };
        let Some(due) = due(&view, look.now()) else { return Ok(None) };
        let (and, remedy) = match view.latest.run.goes_on() {
            true => (", and the run before has not ended", "skips the fire, and says so in the timeline"),
            false => ("", "makes a run of the job's tasks"),
        };
        Ok(Some(Finding {
            repair: self.name(),
            kind: self.kind(),
            subject: Subject::Job(job),
            why: format!("its schedule was to fire at {due}{and}"),
            remedy: remedy.to_owned(),
            fixable: true,
        }))
    }
}
