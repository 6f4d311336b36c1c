//! Rules of jobs and runs (SPEC 2, 6.1, 6.2, 6.5).

use super::world::{must, success};
use super::{Harness, World};
use crate::port::{Error, JobsQuery, StatusFilter, TasksQuery};
use conveyor_domain::lifecycle::{Command, Refusal};
use conveyor_domain::{CallerId, JobId, JobStatus, RunStatus};
use std::collections::HashSet;

const RUN_TASKS_MAX: u32 = 1_000;

pub async fn a_submitted_job_is_visible_whole(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let submission = world.submission(false, 5);
    let unsent = must(world.backend.store.submit(submission.clone()).await);
    let key = crate::port::RunKey { job: submission.job.id, run: submission.run.id };
    world.send(key, unsent).await;
    let view = world.view(key).await;
    assert_eq!((&view.job, &view.latest.run), (&submission.job, &submission.run));
    assert_eq!((view.latest.stats.total, view.latest.stats.counts.completed()), (5, 0));
    let query = TasksQuery { key, filter: StatusFilter::All, after: None, limit: 100, max_bytes: usize::MAX };
    let urls: Vec<_> = must(world.backend.store.tasks(query).await).into_iter().map(|t| t.input).collect();
    assert_eq!(urls, submission.tasks.into_iter().map(|(_, input)| input).collect::<Vec<_>>());
    let queue = conveyor_domain::message::QueueName::Run(key.run);
    assert_eq!(must(world.backend.queue.depth(queue, world.now()).await).visible, 5);
}

pub async fn a_repeated_submit_changes_nothing(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let submission = world.submission(false, 4);
    let key = crate::port::RunKey { job: submission.job.id, run: submission.run.id };
    must(world.backend.store.submit(submission.clone()).await);
    world.finish(key, 0, success()).await;
    let before = world.view(key).await;
    must(world.backend.store.submit(submission).await);
    assert_eq!(world.view(key).await, before);
}

pub async fn acknowledged_jobs_survive_a_crash(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 50).await;
    world.finish(key, 9, success()).await;
    let before = world.view(key).await;
    let after = harness.crash().await;
    let found = must(after.backend().store.job(world.caller, key.job).await);
    assert_eq!(found, Some(before));
}

pub async fn a_job_is_invisible_to_other_callers(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 1).await;
    let stranger = CallerId::new(world.now(), &world.entropy);
    assert_eq!(must(world.backend.store.job(stranger, key.job).await), None);
    let query = JobsQuery { caller: stranger, status: None, before: None, limit: 10 };
    assert!(must(world.backend.store.jobs(query).await).is_empty());
}

pub async fn jobs_page_newest_first_without_gaps(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let mut submitted = Vec::new();
    for i in 0..12 {
        world.pass(10);
        submitted.push(world.submit(i % 3 == 0, 1).await.job);
    }
    submitted.reverse();
    let mut seen: Vec<JobId> = Vec::new();
    loop {
        let query = JobsQuery { caller: world.caller, status: None, before: seen.last().copied(), limit: 5 };
        let page = must(world.backend.store.jobs(query).await);
        if page.is_empty() {
            break;
        }
        seen.extend(page.iter().map(|v| v.job.id));
    }
    assert_eq!(seen, submitted);
    let open = JobsQuery { caller: world.caller, status: Some(JobStatus::Open), before: None, limit: 3 };
    assert_eq!(must(world.backend.store.jobs(open).await).len(), 3, "a filtered page is dense");
}

pub async fn concurrent_additions_never_share_an_index(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(true, 3).await;
    let add = |n: u32| {
        let (store, now) = (world.backend.store.clone(), world.now());
        tokio::spawn(async move {
            must(store.add_tasks(key.job, World::inputs(n), false, RUN_TASKS_MAX, now).await).unsent
        })
    };
    let adds: Vec<_> = (1..=10).map(add).collect();
    for add in adds {
        let unsent = must(add.await);
        world.send(key, unsent).await;
    }
    assert_eq!(world.view(key).await.latest.stats.total, 3 + 55);
    let query =
        TasksQuery { key, filter: StatusFilter::All, after: None, limit: 1_000, max_bytes: usize::MAX };
    let ids: HashSet<_> = must(world.backend.store.tasks(query).await).into_iter().map(|t| t.id).collect();
    assert_eq!(ids.len(), 58);
}

pub async fn a_refused_addition_writes_nothing(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(true, 2).await;
    let add = |n, last| world.backend.store.add_tasks(key.job, World::inputs(n), last, 5, world.now());
    assert_eq!(add(4, false).await.err(), Some(Error::Refused(Refusal::RunTasksMax)));
    must(add(1, true).await);
    assert_eq!(add(1, false).await.err(), Some(Error::Refused(Refusal::LastBatchReceived)));
    let view = world.view(key).await;
    assert_eq!((view.latest.stats.total, view.job.status), (3, JobStatus::Closed));
    let query = TasksQuery { key, filter: StatusFilter::All, after: None, limit: 100, max_bytes: usize::MAX };
    assert_eq!(must(world.backend.store.tasks(query).await).len(), 3);
}

pub async fn only_running_runs_are_active(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let running = world.submit(false, 1).await;
    let idle = world.submit(true, 0).await;
    let stopped = world.submit(false, 1).await;
    must(world.backend.store.apply(stopped.job, Command::Stop, world.now()).await);
    let active: Vec<_> =
        must(world.backend.store.active_runs().await).into_iter().map(|a| a.run.id).collect();
    assert_eq!(active, [running.run]);
    must(world.backend.store.add_tasks(idle.job, World::inputs(1), false, 9, world.now()).await);
    assert_eq!(must(world.backend.store.active_runs().await).len(), 2);
}

pub async fn completion_happens_once_and_never_early(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 2).await;
    let drained = || world.backend.store.apply(key.job, Command::Drained, world.now());
    world.finish(key, 0, success()).await;
    assert_eq!(drained().await.err(), Some(Error::Refused(Refusal::NotDrained)));
    world.finish(key, 1, success()).await;
    world.pass(5);
    let done = must(drained().await);
    assert_eq!(done.latest.run.status, RunStatus::Completed);
    let at = done.latest.run.updated;
    world.pass(5);
    for _ in 0..3 {
        assert_eq!(must(drained().await).latest.run.updated, at, "completed again");
    }
    let stop = world.backend.store.apply(key.job, Command::Stop, world.now()).await;
    assert_eq!(stop.err(), Some(Error::Refused(Refusal::RunNotStoppable)));
}

pub async fn a_command_on_an_unknown_job_is_not_found(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let nobody = JobId::new(world.now(), &world.entropy);
    let outcome = world.backend.store.apply(nobody, Command::Stop, world.now()).await;
    assert_eq!(outcome.err(), Some(Error::NotFound));
}
