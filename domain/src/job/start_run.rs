//! Another run of a job that is there (SPEC 6.19, 6.20): decided, like every command, on the rows as they are.

use crate::job::lifecycle::Decision;
use crate::job::retention::rows_are_over;
use crate::job::run::Expected;
use crate::schedule::Template;
use crate::{
    Counts, IngestStatus, Job, JobSpec, JobStatus, Params, Refusal, Run, RunDoc, RunId, RunStatus, Storage,
    Timestamp, Trigger,
};
use std::sync::Arc;

/// A run that shall be begun for a job that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    pub id: RunId,
    /// The latest run, as it was when this was decided.
    pub after: RunId,
    pub trigger: Trigger,
    /// The moment of the job's schedule that begins it, if one does.
    pub fire: Option<Timestamp>,
    /// The run that it replays, whose results it may point to.
    pub rerun_of: Option<RunId>,
    pub overrides: Params,
    /// Runs whose results its tasks point to.
    pub sources: Vec<RunId>,
    pub tasks: NewTasks,
}

/// Where the tasks of a new run come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewTasks {
    /// They are written together with the run.
    Written { total: u32, next_index: u32, inherited: Counts },
    /// They are ingested; so many, as far as it is known.
    Ingested { expected: Option<Expected> },
}

/// Whether its rows are all there. If it was deleted since they were read, some of them may have been gone, and results that
/// are handed down will be.
pub fn can_be_replayed(source: &Run, now: Timestamp) -> Result<(), Refusal> {
    match source.status == RunStatus::Deleted || rows_are_over(source, now) {
        true => Err(Refusal::NoPriorRun),
        false => Ok(()),
    }
}

/// Begins a run, once the latest one has ended, or the first of a scheduled job. A store asks [`can_be_replayed`] of the run
/// that it replays if that is not the latest. Its tasks have the ids of the latest run, or of the template.
pub fn start_run(job: &Job, latest: Option<&Run>, new: &NewRun, now: Timestamp) -> Result<Decision, Refusal> {
    if job.status == JobStatus::Deleted {
        return Err(Refusal::JobDeleted);
    }
    if latest.is_some_and(Run::goes_on) {
        return Err(Refusal::RunNotTerminal);
    }
    if job.latest_run != new.after {
        return Err(Refusal::AnotherRunBegan);
    }
    if let Some(latest) = latest.filter(|latest| new.rerun_of == Some(latest.id)) {
        can_be_replayed(latest, now)?;
    }
    let sequence = latest.map_or(Template::SEQUENCE, |latest| latest.sequence) + 1;
    let id_seed = latest.map_or(job.latest_run, |latest| latest.id_seed);
    let (total, next_index, inherited, ingest, expected) = match new.tasks {
        NewTasks::Written { total, next_index, inherited } => (total, next_index, inherited, None, None),
        NewTasks::Ingested { expected } => (0, 0, Counts::default(), Some(IngestStatus::Pending), expected),
    };
    let mut job = job.clone();
    if let Some(seen) = new.fire {
        let schedule = job.spec.schedule.as_ref().ok_or(Refusal::JobNotScheduled)?;
        let fired = schedule.fired(seen, now).ok_or(Refusal::FireIsOver)?;
        job.spec = Arc::new(JobSpec { schedule: Some(fired), ..JobSpec::clone(&job.spec) });
    }
    job.status = JobStatus::Closed;
    job.latest_run = new.id;
    job.updated = now.max(job.updated);
    let run = Run {
        id: new.id,
        job: job.id,
        sequence,
        status: RunStatus::Running,
        total,
        next_index,
        latched: ingest.is_none(),
        ingest,
        id_seed,
        failure: None,
        paused: false,
        sources: new.sources.clone(),
        storage: Storage::Kept,
        doc: RunDoc {
            trigger: new.trigger,
            rerun_of: new.rerun_of,
            overrides: new.overrides.clone(),
            inherited,
            expected,
            ..RunDoc::default()
        },
        created: now,
        updated: now,
    };
    Ok(Decision { job, run })
}
