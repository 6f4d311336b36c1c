//! SPEC 6.12: everything that happened to a job is in its timeline, in order, once, and stays there.

use crate::audit::read;
use crate::model::JobModel;
use crate::violation::{Check, Rule, require};
use crate::world::World;
use conveyor_domain::{IngestEvent, JobEvent, JobStatus, LifecycleEvent, RunStatus, TimelineEntry};
use conveyor_store::port::JobView;

const PAGE_LIMITS: [u32; 3] = [7, 50, 1_000];

pub async fn check(world: &mut World, number: usize, view: &JobView) -> Check {
    let job = &world.model.jobs[number];
    let turn = world.turn(number);
    let entries = pages(world, job, PAGE_LIMITS[turn % PAGE_LIMITS.len()]).await?;
    if view.job.status == JobStatus::Deleted {
        // Removed in steps, with everything else of the job: what is left of it is as it was.
        let known =
            |entry: &TimelineEntry| job.timeline.get(entry.number as usize - 1).is_none_or(|e| e == entry);
        return require(entries.iter().all(known), Rule::Durable, || {
            format!("{job}: what is left of its timeline is not what it was: {entries:?}")
        });
    }
    let dense = (1..).zip(&entries).all(|(number, entry)| entry.number == number && entry.run == job.key.run);
    require(dense, Rule::Timeline, || format!("{job}: its timeline has gaps: {:?}", numbers(&entries)))?;
    require(entries.starts_with(&job.timeline), Rule::Durable, || {
        format!("{job}: its timeline was {:?} and is now {entries:?}", job.timeline)
    })?;
    holds_the_log(job, &entries)?;
    adds_up(job, &entries, view)?;
    world.model.jobs[number].timeline = entries;
    Ok(())
}

async fn pages(world: &World, job: &JobModel, limit: u32) -> Check<Vec<TimelineEntry>> {
    let mut entries: Vec<TimelineEntry> = Vec::new();
    loop {
        let after = entries.last().map_or(0, |entry| entry.number);
        let page = read("a timeline", world.truth.store.events(job.key.job, after, limit).await)?;
        let full = page.len() == limit as usize;
        entries.extend(page);
        if !full {
            return Ok(entries);
        }
    }
}

fn numbers(entries: &[TimelineEntry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.number).collect()
}

fn ingest_events(entries: &[TimelineEntry]) -> impl Iterator<Item = &IngestEvent> {
    entries.iter().filter_map(|entry| match &entry.event {
        JobEvent::Ingest(event) => Some(event),
        JobEvent::Lifecycle(_) => None,
    })
}

/// The log of an ingest is a part of the timeline. That of a deleted job or run cannot be read any more, and has not shrunk.
fn holds_the_log(job: &JobModel, entries: &[TimelineEntry]) -> Check {
    let log = job.list.iter().flat_map(|list| &list.log);
    let mut found = ingest_events(entries);
    let within = log.into_iter().all(|logged| found.next() == Some(&logged.event));
    let more = found.next().is_some() && !job.asked.deleted && !job.asked.run_deleted;
    require(within && !more, Rule::Timeline, || {
        format!("{job}: its timeline does not hold the log of its ingest: {entries:?}")
    })
}

/// What the entries say, one after the other, is what the job is.
fn adds_up(job: &JobModel, entries: &[TimelineEntry], view: &JobView) -> Check {
    let (mut total, mut ends, mut closed, mut deleted) = (0, 0, false, false);
    let (mut status, mut paused, mut limits) = (None, false, Vec::new());
    for entry in entries {
        let entered = match &entry.event {
            JobEvent::Ingest(IngestEvent::ChunkCommitted { rows, .. }) => {
                total += rows;
                continue;
            }
            JobEvent::Ingest(_) => continue,
            JobEvent::Lifecycle(event) => event,
        };
        match entered {
            LifecycleEvent::Submitted { tasks, .. } => {
                total += tasks;
                let runs = *tasks > 0 || job.list.is_some();
                status = Some(if runs { RunStatus::Running } else { RunStatus::Pending });
            }
            LifecycleEvent::TasksAdded { tasks } => total += tasks,
            LifecycleEvent::RunStarted { .. } | LifecycleEvent::RunResumed => {
                status = Some(RunStatus::Running)
            }
            LifecycleEvent::RunPending => status = Some(RunStatus::Pending),
            LifecycleEvent::RunPaused { .. } => paused = true,
            LifecycleEvent::RunUnpaused => paused = false,
            LifecycleEvent::LimitsChanged { max_inflight, rate } => limits.push((*max_inflight, *rate)),
            // No caller of the simulation has a webhook.
            LifecycleEvent::WebhookChanged
            | LifecycleEvent::WebhookRemoved
            | LifecycleEvent::WebhookDisabled { .. }
            | LifecycleEvent::ScheduleFired { .. }
            | LifecycleEvent::ScheduleSkipped { .. }
            | LifecycleEvent::ScheduleChanged { .. } => {}
            LifecycleEvent::Closed => closed = true,
            LifecycleEvent::RunCompleted { .. } => (status, ends) = (Some(RunStatus::Completed), ends + 1),
            LifecycleEvent::RunStopped => (status, ends) = (Some(RunStatus::Stopped), ends + 1),
            LifecycleEvent::RunFailed { .. } => (status, ends) = (Some(RunStatus::Failed), ends + 1),
            // The only thing that happens to a run that has ended.
            LifecycleEvent::RunDeleted => {
                ends += u32::from(!status.is_some_and(RunStatus::is_terminal));
                status = Some(RunStatus::Deleted);
            }
            LifecycleEvent::Deleted => deleted = true,
        }
    }
    let (run, spec) = (&view.latest_run().run, &view.job.spec);
    let steered = paused == run.paused
        && limits.len() == spec.limits_revision as usize
        && limits.last().is_none_or(|last| *last == (spec.max_inflight, spec.rate));
    let holds = steered
        && status == Some(run.status)
        && total == run.total
        && ends == u32::from(run.status.is_terminal())
        && deleted == (view.job.status == JobStatus::Deleted)
        && (deleted || (closed == (job.submitted_open && view.job.status == JobStatus::Closed)));
    require(holds, Rule::Timeline, || {
        format!("{job}: its timeline does not lead to what it is: {view:?}; {entries:?}")
    })
}
