//! The state machines of jobs and runs (SPEC 2) as one pure function. A backend reads the rows, calls [`decide`] and
//! writes what it returns, all in one atomic step.

use crate::job::run::Expected;
use crate::{
    AccountFault, CallerId, Counts, FailureReason, IngestStatus, Job, JobId, JobSpec, JobStatus,
    LimitsChange, ListFault, Run, RunDoc, RunFailure, RunId, RunStatus, ScheduleChange, Storage, Timestamp,
    WebhookConfig, breaker, failure, limits,
};
use std::sync::Arc;

pub use super::start_run::{NewRun, NewTasks};
pub use crate::job::start_run::{can_be_replayed, start_run};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    AddTasks {
        count: u32,
        last_batch: bool,
        run_tasks_max: u32,
    },
    Close,
    Stop,
    Pause,
    Resume,
    /// Other limits, for what is started from now on.
    Limits(LimitsChange),
    /// Another receiver of notifications, or none.
    Webhook(Option<WebhookConfig>),
    /// The receiver at this URL wants no more of them.
    DisableWebhook {
        url: String,
        reason: String,
    },
    /// Of this run: nothing if another is the latest by now.
    FailRun {
        run: RunId,
        reason: AccountFault,
        detail: String,
    },
    /// Pause this run if too many of its tasks fail: nothing if they do not, or if another is the latest by now.
    Trip {
        run: RunId,
    },
    /// Every accepted task is terminal: finish the run, or put it to rest until more tasks come.
    Drained,
    Delete,
    Ingest(IngestStep),
    Schedule(ScheduleChange),
}

/// What a step of an ingest does to its run. Every number is absolute, so that a repeated step changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IngestStep {
    Progress {
        total: u32,
        next_index: u32,
        /// What an earlier run did of it.
        inherited: Counts,
    },
    /// So many tasks will come, for certain.
    Expect {
        tasks: u32,
    },
    /// The list is all there.
    Latch,
    /// The run ended first: its total is what was written.
    Cut {
        total: u32,
    },
    Fail {
        fault: ListFault,
        detail: String,
    },
}

/// Why a command cannot be carried out in the present state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the job no longer accepts tasks")]
    JobNotOpen,
    #[error("the last batch was already received")]
    LastBatchReceived,
    #[error("the run would exceed the number of tasks that a run may have")]
    RunTasksMax,
    #[error("the run has already ended")]
    RunNotStoppable,
    #[error("the run has already ended, so it cannot be paused or resumed")]
    RunNotPausable,
    #[error(
        "the schedule has not fired yet, so there is no run to stop: pause the schedule, or delete the job"
    )]
    NothingToStop,
    #[error("the schedule has not fired yet, so there is no run to pause or resume: pause the schedule")]
    NothingToPause,
    #[error("the job is being deleted")]
    JobDeleted,
    #[error("not every task is terminal")]
    NotDrained,
    #[error("the job's list is still being ingested")]
    Ingesting,
    #[error("the run has ended")]
    RunEnded,
    #[error("the run has no list that is being ingested")]
    NotIngesting,
    #[error("a job was made of this upload; its bytes can no longer be replaced")]
    UploadClaimed,
    #[error("the upload is complete; it takes no more parts")]
    UploadComplete,
    #[error("the caller has too many uploads that no job was made of")]
    TooManyUploads,
    #[error("a later run still points to results of this one")]
    RunHasDescendants,
    #[error("the latest run has not ended, or its list is still being ingested")]
    RunNotTerminal,
    #[error("another run was begun meanwhile")]
    AnotherRunBegan,
    #[error("the run that shall be replayed was deleted, or is no longer kept")]
    NoPriorRun,
    #[error("the job has no schedule")]
    JobNotScheduled,
    #[error("it was done by somebody else, or is not to be done any more")]
    FireIsOver,
    #[error(
        "the job would be stored in more than {} bytes (`job_document_max_bytes`), its parameters, metadata, domain limits, \
         webhook and schedule together",
        limits::JOB_DOCUMENT_MAX_BYTES
    )]
    JobTooLarge,
}

/// The rows as they shall be. Equal to what went in when there was nothing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub job: Job,
    pub run: Run,
}

/// The first rows of a job: what a submit makes visible.
pub fn submit(
    id: JobId,
    run: RunId,
    caller: CallerId,
    spec: JobSpec,
    open: bool,
    tasks: u32,
    now: Timestamp,
) -> Decision {
    let status = if open { JobStatus::Open } else { JobStatus::Closed };
    let spec = JobSpec { submitted_open: open, ..spec };
    Decision {
        job: Job { id, caller, spec: Arc::new(spec), status, latest_run: run, created: now, updated: now },
        run: Run {
            id: run,
            job: id,
            sequence: 1,
            status: if tasks > 0 { RunStatus::Running } else { RunStatus::Pending },
            total: tasks,
            next_index: tasks,
            latched: !open,
            ingest: None,
            id_seed: run,
            failure: None,
            paused: false,
            sources: Vec::new(),
            storage: Storage::Kept,
            doc: RunDoc::default(),
            created: now,
            updated: now,
        },
    }
}

/// The first rows of a job whose list is staged: nothing is counted yet, and nothing is latched before the list is read.
pub fn accept(
    id: JobId,
    run: RunId,
    caller: CallerId,
    spec: JobSpec,
    open: bool,
    now: Timestamp,
) -> Decision {
    let mut rows = submit(id, run, caller, spec, open, 0, now);
    rows.run.status = RunStatus::Running;
    rows.run.latched = false;
    rows.run.ingest = Some(IngestStatus::Pending);
    rows
}

/// A job that has a schedule: no run, only the [`Template`](crate::schedule::Template) of its runs.
pub fn scheduled(
    id: JobId,
    template: RunId,
    caller: CallerId,
    mut spec: JobSpec,
    tasks: u32,
    now: Timestamp,
) -> Job {
    if let Some(schedule) = spec.schedule.as_mut().filter(|schedule| schedule.source.is_none()) {
        schedule.rows = Some(tasks);
    }
    submit(id, template, caller, spec, false, tasks, now).job
}

/// Decides a command on a job and its latest run; a scheduled job that has not fired has none.
pub fn decide_latest(
    job: &Job,
    latest: Option<&Run>,
    counts: &Counts,
    command: &Command,
    now: Timestamp,
) -> Result<(Job, Option<Run>), Refusal> {
    match latest {
        Some(run) => decide(job, run, counts, command, now).map(|next| (next.job, Some(next.run))),
        None => decide_unfired(job, command, now).map(|next| (next, None)),
    }
}

fn decide_unfired(job: &Job, command: &Command, now: Timestamp) -> Result<Job, Refusal> {
    let mut next = job.clone();
    match command {
        Command::AddTasks { .. } | Command::Close | Command::Stop | Command::Pause | Command::Resume
            if job.status == JobStatus::Deleted =>
        {
            return Err(Refusal::JobDeleted);
        }
        Command::AddTasks { .. } | Command::Close => return Err(Refusal::JobNotOpen),
        Command::Stop => return Err(Refusal::NothingToStop),
        Command::Pause | Command::Resume => return Err(Refusal::NothingToPause),
        Command::Drained => return Err(Refusal::NotDrained),
        Command::Ingest(_) => return Err(Refusal::NotIngesting),
        Command::FailRun { .. } | Command::Trip { .. } => {}
        Command::Delete => next.status = JobStatus::Deleted,
        Command::Limits(_) | Command::Webhook(_) | Command::DisableWebhook { .. } | Command::Schedule(_) => {
            next.spec = described(job, false, command, now)?;
        }
    }
    if next != *job {
        next.updated = now.max(job.updated);
    }
    Ok(next)
}

pub fn decide(
    job: &Job,
    run: &Run,
    counts: &Counts,
    command: &Command,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    let mut next = Decision { job: job.clone(), run: run.clone() };
    match command {
        Command::AddTasks { count, last_batch, run_tasks_max } => {
            accepts_tasks(job, run)?;
            let fits = |n: u32| n.checked_add(*count).filter(|n| n <= run_tasks_max);
            next.run.total = fits(run.total).ok_or(Refusal::RunTasksMax)?;
            next.run.next_index = run.next_index.checked_add(*count).ok_or(Refusal::RunTasksMax)?;
            if *count > 0 {
                next.run.status = RunStatus::Running;
            }
            if *last_batch {
                close(&mut next);
                finish_if_drained(&mut next, counts);
            }
        }
        Command::Close => {
            if job.status == JobStatus::Deleted {
                return Err(Refusal::JobDeleted);
            }
            if job.spec.schedule.is_some() {
                return Err(Refusal::JobNotOpen);
            }
            close(&mut next);
            finish_if_drained(&mut next, counts);
        }
        Command::Stop | Command::Pause | Command::Resume if job.status == JobStatus::Deleted => {
            return Err(Refusal::JobDeleted);
        }
        Command::Stop => match run.status {
            RunStatus::Running | RunStatus::Pending => {
                close(&mut next);
                next.run.latched = true;
                next.run.status = RunStatus::Stopped;
            }
            RunStatus::Stopped => {}
            RunStatus::Completed | RunStatus::Failed | RunStatus::Deleted => {
                return Err(Refusal::RunNotStoppable);
            }
        },
        Command::Pause | Command::Resume if run.status.is_terminal() => return Err(Refusal::RunNotPausable),
        Command::Pause => next.run.paused = true,
        Command::Resume => {
            if run.paused {
                next.run.paused = false;
                next.run.doc.pause = None;
                next.run.doc.breaker_from = counts.minus(run.doc.inherited);
            }
        }
        // A worker that was late: what it met is no fault of the run that lives now.
        Command::FailRun { run: of, .. } | Command::Trip { run: of } if *of != run.id => {}
        Command::Trip { .. } => {
            if let Some(reason) = breaker::judge(&job.spec, run, counts) {
                next.run.paused = true;
                next.run.doc.pause = Some(reason);
            }
        }
        Command::Limits(_) | Command::Webhook(_) | Command::DisableWebhook { .. } | Command::Schedule(_) => {
            next.job.spec = described(job, run.goes_on(), command, now)?;
            // Workers look at runs that were updated. Of a run that has ended, it is when it did.
            let is_for_workers = matches!(command, Command::Limits(_)) && next.job.spec != job.spec;
            if is_for_workers && !run.status.is_terminal() {
                next.run.updated = now;
            }
        }
        Command::FailRun { run: _, reason, detail } => match run.status {
            RunStatus::Running | RunStatus::Pending => {
                close(&mut next);
                next.run.latched = true;
                next.run.status = RunStatus::Failed;
                let detail = failure::cut(detail, limits::FAILURE_DETAIL_MAX_CHARS).to_owned();
                next.run.failure = Some(RunFailure { reason: FailureReason::Account(*reason), detail });
            }
            // Another worker met the same answer first, or the run ended meanwhile: its end stands.
            RunStatus::Completed | RunStatus::Stopped | RunStatus::Failed | RunStatus::Deleted => {}
        },
        Command::Drained => {
            if !run.is_drained(counts) {
                return Err(Refusal::NotDrained);
            }
            match run.status {
                RunStatus::Running if !run.latched => next.run.status = RunStatus::Pending,
                RunStatus::Running | RunStatus::Pending => finish_if_drained(&mut next, counts),
                RunStatus::Completed | RunStatus::Stopped | RunStatus::Failed | RunStatus::Deleted => {}
            }
        }
        Command::Delete => {
            next.job.status = JobStatus::Deleted;
            if !run.status.is_terminal() {
                next.run.latched = true;
                next.run.status = RunStatus::Deleted;
            }
        }
        Command::Ingest(step) => ingest(&mut next, counts, step)?,
    }
    stamp(&mut next, job, run, now);
    Ok(next)
}

/// The description of a job after a command that may change it. `goes_on`: whether its latest run does.
fn described(job: &Job, goes_on: bool, command: &Command, now: Timestamp) -> Result<Arc<JobSpec>, Refusal> {
    if job.status == JobStatus::Deleted && !matches!(command, Command::DisableWebhook { .. }) {
        return Err(Refusal::JobDeleted);
    }
    let spec = match command {
        Command::Limits(change) => job.spec.with(change),
        Command::Webhook(webhook) => job.spec.with_webhook(webhook.clone(), now),
        Command::DisableWebhook { url, reason } => job.spec.without_receiver(url, reason, now),
        Command::Schedule(change) => {
            let schedule = job.spec.schedule.as_ref().ok_or(Refusal::JobNotScheduled)?;
            JobSpec { schedule: Some(schedule.with(change, goes_on, now)?), ..JobSpec::clone(&job.spec) }
        }
        Command::AddTasks { .. }
        | Command::Close
        | Command::Stop
        | Command::Pause
        | Command::Resume
        | Command::FailRun { .. }
        | Command::Trip { .. }
        | Command::Drained
        | Command::Delete
        | Command::Ingest(_) => return Ok(job.spec.clone()),
    };
    let is_asked_for = matches!(
        command,
        Command::Limits(_) | Command::Webhook(Some(_)) | Command::Schedule(ScheduleChange::Rule(_))
    );
    // A job that an earlier version let in may shrink.
    let most = || limits::JOB_DOCUMENT_MAX_BYTES.max(job.spec.stored_bytes());
    match is_asked_for && spec.stored_bytes() > most() {
        true => Err(Refusal::JobTooLarge),
        false => Ok(Arc::new(spec)),
    }
}

/// Deletes one run of a job. `needed`: by another run of it ([`Run::needs`]).
/// A run that has ended becomes deleted as well: its rows are on their way out, and nobody is to read half of them.
pub fn delete_run(job: &Job, run: &Run, needed: bool, now: Timestamp) -> Result<Decision, Refusal> {
    let mut next = Decision { job: job.clone(), run: run.clone() };
    if run.status == RunStatus::Deleted {
        return Ok(next);
    }
    // It goes with its job, whose events may be gone already: one more would begin a second timeline.
    if job.status == JobStatus::Deleted {
        return Err(Refusal::JobDeleted);
    }
    if needed {
        return Err(Refusal::RunHasDescendants);
    }
    // Tasks are added to the latest run, and there will be none to add them to.
    if run.id == job.latest_run {
        close(&mut next);
    }
    next.run.latched = true;
    next.run.status = RunStatus::Deleted;
    stamp(&mut next, job, run, now);
    Ok(next)
}

fn accepts_tasks(job: &Job, run: &Run) -> Result<(), Refusal> {
    match job.status {
        JobStatus::Deleted => Err(Refusal::JobDeleted),
        // The tasks of its runs are fixed, whatever its latest run does.
        JobStatus::Open | JobStatus::Closed if job.spec.schedule.is_some() => Err(Refusal::JobNotOpen),
        // Where the list ends, and so which index comes next, is not known yet.
        JobStatus::Open if run.is_ingesting() && !run.status.is_terminal() => Err(Refusal::Ingesting),
        JobStatus::Open if !run.latched && !run.status.is_terminal() => Ok(()),
        // The caller who sent the last batch learns that, rather than that the job was never open.
        JobStatus::Open | JobStatus::Closed if job.spec.submitted_open && !run.status.is_terminal() => {
            Err(Refusal::LastBatchReceived)
        }
        JobStatus::Open | JobStatus::Closed => Err(Refusal::JobNotOpen),
    }
}

fn close(next: &mut Decision) {
    if next.job.status == JobStatus::Open {
        next.job.status = JobStatus::Closed;
    }
    // A list that is still read is not complete: its own end latches the run.
    if !next.run.status.is_terminal() && !next.run.is_ingesting() {
        next.run.latched = true;
    }
}

fn ingest(next: &mut Decision, counts: &Counts, step: &IngestStep) -> Result<(), Refusal> {
    let ended = next.run.status.is_terminal();
    if !next.run.is_ingesting() {
        return Err(Refusal::NotIngesting);
    }
    match step {
        IngestStep::Progress { .. }
        | IngestStep::Expect { .. }
        | IngestStep::Latch
        | IngestStep::Fail { .. }
            if ended =>
        {
            return Err(Refusal::RunEnded);
        }
        // Never lower: where rows are counted before their event is logged, somebody else may have counted more of them.
        IngestStep::Progress { total, next_index, inherited } => {
            next.run.doc.inherited = next.run.doc.inherited.max(*inherited);
            next.run.total = next.run.total.max(*total);
            next.run.next_index = next.run.next_index.max(*next_index);
        }
        IngestStep::Expect { tasks } => {
            next.run.doc.expected = Some(Expected { tasks: *tasks, exact: true });
        }
        IngestStep::Latch => {
            next.run.ingest = Some(IngestStatus::Done);
            if next.job.status != JobStatus::Open {
                close(next);
                finish_if_drained(next, counts);
            }
        }
        IngestStep::Cut { total } => {
            next.run.total = next.run.total.max(*total);
            next.run.ingest = Some(IngestStatus::Done);
        }
        IngestStep::Fail { fault, detail } => {
            next.run.ingest = Some(IngestStatus::Done);
            close(next);
            next.run.status = RunStatus::Failed;
            let detail = failure::cut(detail, limits::FAILURE_DETAIL_MAX_CHARS).to_owned();
            next.run.failure = Some(RunFailure { reason: FailureReason::List(*fault), detail });
        }
    }
    Ok(())
}

fn finish_if_drained(next: &mut Decision, counts: &Counts) {
    if next.run.latched && !next.run.status.is_terminal() && next.run.is_drained(counts) {
        next.run.status = RunStatus::Completed;
    }
}

/// Moves `updated` of exactly the rows that changed.
/// Never back: whoever is late, or whose clock is, must not hide what changed from those who look since a moment.
fn stamp(next: &mut Decision, job: &Job, run: &Run, now: Timestamp) {
    if next.job != *job {
        next.job.updated = now.max(job.updated);
    }
    // Of a run that has ended it is when it did, also if its list is settled only after that.
    let had_ended = run.status.is_terminal() && next.run.status == run.status;
    if next.run != *run && !had_ended {
        next.run.updated = now.max(run.updated);
    }
}

#[cfg(test)]
#[path = "lifecycle_tests.rs"]
mod tests;
