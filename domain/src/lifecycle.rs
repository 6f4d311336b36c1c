//! The state machines of jobs and runs (SPEC 2) as one pure function. A backend reads the rows, calls [`decide`] and
//! writes what it returns, all in one atomic step.

use crate::failure::{self, AccountFault};
use crate::id::{CallerId, JobId, RunId};
use crate::job::{Job, JobSpec, JobStatus};
use crate::limits;
use crate::run::{Counts, Run, RunFailure, RunStats, RunStatus};
use crate::time::Timestamp;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    AddTasks {
        count: u32,
        last_batch: bool,
        run_tasks_max: u32,
    },
    Close,
    Stop,
    FailRun {
        reason: AccountFault,
        detail: String,
    },
    /// Every accepted task is terminal: finish the run, or put it to rest until more tasks come.
    Drained,
    Delete,
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
    #[error("the job is being deleted")]
    JobDeleted,
    #[error("not every task is terminal")]
    NotDrained,
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
            id_seed: run,
            failure: None,
            created: now,
            updated: now,
        },
    }
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
            close(&mut next);
            finish_if_drained(&mut next, counts);
        }
        Command::Stop => match run.status {
            RunStatus::Running | RunStatus::Pending => {
                close(&mut next);
                next.run.status = RunStatus::Stopped;
            }
            RunStatus::Stopped => {}
            RunStatus::Completed | RunStatus::Failed | RunStatus::Deleted => {
                return Err(Refusal::RunNotStoppable);
            }
        },
        Command::FailRun { reason, detail } => match run.status {
            RunStatus::Running | RunStatus::Pending => {
                close(&mut next);
                next.run.status = RunStatus::Failed;
                let detail = failure::cut(detail, limits::FAILURE_DETAIL_MAX_CHARS).to_owned();
                next.run.failure = Some(RunFailure { reason: *reason, detail });
            }
            // Another worker met the same answer first, or the run ended meanwhile: its end stands.
            RunStatus::Completed | RunStatus::Stopped | RunStatus::Failed | RunStatus::Deleted => {}
        },
        Command::Drained => {
            if !(RunStats { total: run.total, counts: *counts }).is_drained() {
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
    }
    stamp(&mut next, job, run, now);
    Ok(next)
}

fn accepts_tasks(job: &Job, run: &Run) -> Result<(), Refusal> {
    match job.status {
        JobStatus::Deleted => Err(Refusal::JobDeleted),
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
    if !next.run.status.is_terminal() {
        next.run.latched = true;
    }
}

fn finish_if_drained(next: &mut Decision, counts: &Counts) {
    let stats = RunStats { total: next.run.total, counts: *counts };
    if next.run.latched && !next.run.status.is_terminal() && stats.is_drained() {
        next.run.status = RunStatus::Completed;
    }
}

/// Moves `updated` of exactly the rows that changed.
fn stamp(next: &mut Decision, job: &Job, run: &Run, now: Timestamp) {
    if next.job != *job {
        next.job.updated = now;
    }
    if next.run != *run {
        next.run.updated = now;
    }
}

#[cfg(test)]
#[path = "lifecycle_tests.rs"]
mod tests;
