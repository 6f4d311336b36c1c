//! SPEC 2 and 3.3: a run goes only where its state machine leads, ends once, and completes neither early nor never.

use crate::audit::read;
use crate::model::{JobModel, Presence};
use crate::violation::{Check, Rule, Violation, require};
use crate::world::World;
use conveyor_domain::{FailureReason, IngestStatus, JobStatus, QueueName, Run, RunStatus, Storage, Task};
use conveyor_store::port::{Emptiness, JobView};

pub fn of_view(job: &mut JobModel, view: &JobView) -> Check {
    states(job, view)?;
    asked_for(job, view)?;
    acknowledged(job, view)?;
    if let Some(ended) = &job.ended {
        let run = &view.latest_run().run;
        // The whole row: neither its state nor the time of its end may move. But a list that was being read is cut, and
        // what was deleted goes.
        require(*run == later(job, ended, run), Rule::Completion, || {
            format!("{job} ended as {ended:?} and is now {run:?}")
        })?;
    }
    Ok(())
}

/// What a run that ended is by now, of all that it may have become: its list cut, which on this store changes no total;
/// deleted; removed.
fn later(job: &JobModel, ended: &Run, now: &Run) -> Run {
    let mut run = ended.clone();
    let was_deleted = ended.status == RunStatus::Deleted;
    if !was_deleted && ended.is_ingesting() && now.ingest == Some(IngestStatus::Done) {
        (run.ingest, run.updated) = (now.ingest, now.updated);
    }
    if !was_deleted && now.status == RunStatus::Deleted && job.asked.run_deleted {
        (run.status, run.updated) = (RunStatus::Deleted, now.updated);
    }
    if run.status == RunStatus::Deleted && now.storage == Storage::Removed && job.asked.run_deleted {
        run.storage = Storage::Removed;
    }
    run
}

/// States that exclude each other, and steps that no transition makes.
fn states(job: &JobModel, view: &JobView) -> Check {
    let (run, stats) = (&view.latest_run().run, view.latest_run().stats);
    let (status, latched, drained) = (run.status.as_str(), run.latched, run.is_drained(&stats.counts));
    let possible = match run.status {
        // Latched and completed only when all of it is there.
        RunStatus::Running if run.is_ingesting() => !latched,
        RunStatus::Running => stats.total > 0,
        RunStatus::Pending => drained && !latched,
        RunStatus::Completed => drained && latched,
        RunStatus::Stopped | RunStatus::Failed | RunStatus::Deleted => latched,
    };
    require(possible, Rule::Completion, || format!("{job} is {status} with latch {latched} and {stats:?}"))?;
    let agrees = match view.job.status {
        JobStatus::Open => !latched,
        JobStatus::Closed => latched || run.is_ingesting(),
        JobStatus::Deleted => run.status.is_terminal(),
    };
    require(agrees, Rule::Lifecycle, || {
        format!("{job} is {} and its run {status} with latch {latched}", view.job.status.as_str())
    })?;
    let Some(last) = &job.last else { return Ok(()) };
    let before = &last.latest_run().run;
    let forward = (!before.latched || latched)
        && (before.is_ingesting() || before.ingest == run.ingest)
        && before.updated <= run.updated
        && last.job.updated <= view.job.updated
        && rank(last.job.status) <= rank(view.job.status);
    require(forward, Rule::Lifecycle, || format!("{job} went back from {last:?} to {view:?}"))?;
    // A run at rest is woken by new tasks and by nothing else.
    let woken = before.status == RunStatus::Pending && run.status == RunStatus::Running;
    require(!woken || before.total < run.total, Rule::Lifecycle, || {
        format!("{job} runs again although no tasks were added")
    })
}

fn rank(status: JobStatus) -> u8 {
    match status {
        JobStatus::Open => 0,
        JobStatus::Closed => 1,
        JobStatus::Deleted => 2,
    }
}

/// Nothing happens that nobody asked for.
fn asked_for(job: &JobModel, view: &JobView) -> Check {
    let run = &view.latest_run().run;
    let (asked, deleted) = (job.asked, view.job.status == JobStatus::Deleted);
    let reason = run.failure.as_ref().map(|failure| failure.reason);
    let by_list = match (reason, &job.list) {
        (Some(FailureReason::List(fault)), Some(list)) => list.may_fail_with(fault),
        (Some(FailureReason::List(_)), None) | (Some(FailureReason::Account(_)) | None, _) => false,
    };
    let ended = match run.status {
        RunStatus::Running | RunStatus::Pending | RunStatus::Completed => true,
        RunStatus::Stopped => asked.stopped,
        RunStatus::Failed => asked.failed || by_list,
        RunStatus::Deleted => asked.deleted || asked.run_deleted,
    };
    let latched = !run.latched || asked.latched || by_list;
    require(ended && latched && (!deleted || asked.deleted), Rule::Lifecycle, || {
        format!("{job}: nobody asked for what it is: {view:?}; asked: {asked:?}")
    })
}

/// Everything that was acknowledged is so.
fn acknowledged(job: &JobModel, view: &JobView) -> Check {
    let (known, run) = (job.known, &view.latest_run().run);
    let holds = (!known.latched || run.latched || run.is_ingesting())
        && (!known.stopped || run.status == RunStatus::Stopped || run.status == RunStatus::Deleted)
        && (!known.run_deleted || run.status == RunStatus::Deleted)
        && (!known.deleted || view.job.status == JobStatus::Deleted);
    require(holds, Rule::Durable, || format!("{job}: acknowledged: {known:?}; found: {view:?}"))
}

pub fn of_rows(job: &JobModel, view: &JobView, rows: &[Task]) -> Check {
    let open = rows.iter().filter(|row| !row.status.is_terminal()).count();
    let done = view.latest_run().run.status == RunStatus::Completed;
    require(!done || open == 0, Rule::Completion, || {
        format!("{job} is completed, and {open} of its rows are not terminal")
    })
}

/// After a sweep that nothing disturbed, no run whose tasks are all terminal still runs, and no other is without a message:
/// lost ones were sent again.
pub async fn after_sweep(world: &World) -> Check {
    for active in read("the active runs", world.truth.store.changed_runs(None, world.now()).await)?.active {
        let name = world.name(active.job.id);
        require(!active.run.is_drained(&active.stats.counts), Rule::Completion, || {
            format!("{name} has nothing left to do and still runs after a sweep")
        })?;
        if active.stats.counts.completed() == active.stats.total {
            continue;
        }
        let queue = QueueName::Run(active.run.id);
        let emptiness = read("a queue", world.truth.queue.emptiness(queue, world.now()).await)?;
        require(emptiness != Emptiness::Empty, Rule::Queues, || {
            format!("{name} has work left and no messages after a sweep")
        })?;
    }
    Ok(())
}

/// Once the faults are over and the workers had their time.
pub fn at_the_end(world: &World) -> Check {
    for job in &world.model.jobs {
        if job.rests() {
            continue;
        }
        let stuck = job.last.as_ref().map(|view| (view.latest_run().run.status, view.latest_run().stats));
        let text = match job.presence {
            Presence::There if job.asked.deleted || job.asked.run_deleted => {
                format!("{job} was deleted and does not go away: {stuck:?}")
            }
            Presence::There | Presence::Unknown | Presence::Gone => {
                format!("{job} never comes to an end: {stuck:?}")
            }
        };
        return Err(Violation { rule: Rule::Completion, text });
    }
    Ok(())
}
