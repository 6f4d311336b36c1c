//! What happened to a job, in order: what its callers and operators read as its events (SPEC 6.12).

use crate::{
    IngestEvent, Job, JobSchedule, JobStatus, PauseReason, Rate, Run, RunFailure, RunId, RunStatus,
    ScheduleState, Timestamp, Trigger, WebhookConfig,
};
use serde::{Deserialize, Serialize};

/// A change of a job or of its run. Stored as JSON: new fields need a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum LifecycleEvent {
    Submitted {
        tasks: u32,
        open: bool,
    },
    TasksAdded {
        tasks: u32,
    },
    /// Another run of the job began.
    RunStarted {
        sequence: u32,
        trigger: Trigger,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rerun_of: Option<RunId>,
    },
    /// More tasks came to a run that had nothing left to do.
    RunResumed,
    /// Nothing left to do for now; more tasks may come.
    RunPending,
    RunPaused {
        /// Nothing if somebody asked for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<PauseReason>,
    },
    RunUnpaused,
    LimitsChanged {
        max_inflight: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate: Option<Rate>,
    },
    WebhookChanged,
    WebhookRemoved,
    WebhookDisabled {
        reason: String,
    },
    Closed,
    RunCompleted {
        total: u32,
    },
    RunStopped,
    RunFailed {
        failure: Option<RunFailure>,
    },
    RunDeleted,
    Deleted,
    /// A schedule made this run.
    ScheduleFired {
        due: Timestamp,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<Timestamp>,
    },
    /// A schedule made no run: this one had not ended.
    ScheduleSkipped {
        due: Timestamp,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<Timestamp>,
    },
    /// Another rule, or paused, or going on.
    ScheduleChanged {
        state: ScheduleState,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<Timestamp>,
    },
}

impl LifecycleEvent {
    /// As it is called on the wire.
    pub fn kind(&self) -> &'static str {
        match self {
            LifecycleEvent::Submitted { .. } => "job.submitted",
            LifecycleEvent::TasksAdded { .. } => "tasks.added",
            LifecycleEvent::RunStarted { .. } => "run.started",
            LifecycleEvent::RunResumed => "run.resumed",
            LifecycleEvent::RunPending => "run.pending",
            LifecycleEvent::RunPaused { .. } => "run.paused",
            LifecycleEvent::RunUnpaused => "run.unpaused",
            LifecycleEvent::LimitsChanged { .. } => "limits.changed",
            LifecycleEvent::WebhookChanged => "webhook.changed",
            LifecycleEvent::WebhookRemoved => "webhook.removed",
            LifecycleEvent::WebhookDisabled { .. } => "webhook.disabled",
            LifecycleEvent::Closed => "job.closed",
            LifecycleEvent::RunCompleted { .. } => "run.completed",
            LifecycleEvent::RunStopped => "run.stopped",
            LifecycleEvent::RunFailed { .. } => "run.failed",
            LifecycleEvent::RunDeleted => "run.deleted",
            LifecycleEvent::Deleted => "job.deleted",
            LifecycleEvent::ScheduleFired { .. } => "schedule.fired",
            LifecycleEvent::ScheduleSkipped { .. } => "schedule.skipped",
            LifecycleEvent::ScheduleChanged { .. } => "schedule.changed",
        }
    }
}

/// An entry of a job's timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobEvent {
    Lifecycle(LifecycleEvent),
    Ingest(IngestEvent),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineEntry {
    /// From 1, without gaps, within its job.
    pub number: u64,
    pub at: Timestamp,
    pub run: RunId,
    pub event: JobEvent,
}

/// What a submit of so many tasks made happen.
pub fn submitted(job: &Job, tasks: u32) -> LifecycleEvent {
    LifecycleEvent::Submitted { tasks, open: job.status == JobStatus::Open }
}

/// What it made happen that a run was begun for a job that is there.
pub fn run_started(before: &Job, job: &Job, run: &Run) -> Vec<LifecycleEvent> {
    let schedules = before.spec.schedule.as_ref().zip(job.spec.schedule.as_ref());
    let fired = schedules.and_then(|(before, after)| of_schedule(before, after));
    let started = LifecycleEvent::RunStarted {
        sequence: run.sequence,
        trigger: run.doc.trigger,
        rerun_of: run.doc.rerun_of,
    };
    fired.into_iter().chain([started]).collect()
}

/// What happened between two states of a job and its run, if it has one, in the order in which a reader expects it.
pub fn changes(before: (&Job, Option<&Run>), after: (&Job, Option<&Run>)) -> Vec<LifecycleEvent> {
    let ((job_before, run_before), (job, run)) = (before, after);
    let runs = run_before.zip(run);
    let mut events = Vec::new();
    // The tasks of a list have events of their own.
    let added = runs.map_or(0, |(before, run)| run.total.saturating_sub(before.total));
    if added > 0 && !run_before.is_some_and(Run::is_ingesting) {
        events.push(LifecycleEvent::TasksAdded { tasks: added });
    }
    if job.spec.limits_revision != job_before.spec.limits_revision {
        events
            .push(LifecycleEvent::LimitsChanged { max_inflight: job.spec.max_inflight, rate: job.spec.rate });
    }
    if let (Some(before), Some(after)) = (&job_before.spec.schedule, &job.spec.schedule) {
        events.extend(of_schedule(before, after));
    }
    if job.spec.webhook != job_before.spec.webhook {
        events.push(match &job.spec.webhook {
            None => LifecycleEvent::WebhookRemoved,
            // Where to is the caller's business, and may be a secret.
            Some(WebhookConfig { disabled: None, .. }) => LifecycleEvent::WebhookChanged,
            Some(WebhookConfig { disabled: Some(disabled), .. }) => {
                LifecycleEvent::WebhookDisabled { reason: disabled.reason.clone() }
            }
        });
    }
    if let Some((_, run)) = runs.filter(|(before, run)| run.paused != before.paused) {
        events.push(match run.paused {
            true => LifecycleEvent::RunPaused { reason: run.doc.pause.clone() },
            false => LifecycleEvent::RunUnpaused,
        });
    }
    if job.status != job_before.status && job.status == JobStatus::Closed {
        events.push(LifecycleEvent::Closed);
    }
    events.extend(runs.filter(|(before, run)| run.status != before.status).map(|(_, run)| entered(run)));
    if job.status != job_before.status && job.status == JobStatus::Deleted {
        events.push(LifecycleEvent::Deleted);
    }
    events
}

/// What happened to a schedule.
fn of_schedule(before: &JobSchedule, after: &JobSchedule) -> Option<LifecycleEvent> {
    // What was due, if something was: nothing fires or is skipped that is not.
    let due = before.next.unwrap_or_default();
    let next = after.next;
    if after.fired != before.fired {
        Some(LifecycleEvent::ScheduleFired { due, next })
    } else if after.skipped != before.skipped {
        Some(LifecycleEvent::ScheduleSkipped { due, next })
    } else if (&after.schedule, after.state, after.anchor, after.next)
        != (&before.schedule, before.state, before.anchor, before.next)
    {
        Some(LifecycleEvent::ScheduleChanged { state: after.state, next })
    } else {
        None
    }
}

fn entered(run: &Run) -> LifecycleEvent {
    match run.status {
        RunStatus::Running => LifecycleEvent::RunResumed,
        RunStatus::Pending => LifecycleEvent::RunPending,
        RunStatus::Completed => LifecycleEvent::RunCompleted { total: run.total },
        RunStatus::Stopped => LifecycleEvent::RunStopped,
        RunStatus::Deleted => LifecycleEvent::RunDeleted,
        RunStatus::Failed => LifecycleEvent::RunFailed { failure: run.failure.clone() },
    }
}
