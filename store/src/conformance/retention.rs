//! Rules of removal (SPEC 6.6).

use super::world::{failure, must, success};
use super::{Harness, World};
use conveyor_domain::lifecycle::Command;
use conveyor_domain::message::QueueName;
use conveyor_domain::{FailureClass, JobStatus};

/// Everything that a sweeper does, until there is nothing left to do.
async fn sweep(world: &World) {
    let (store, queue) = (&world.backend.store, &world.backend.queue);
    for run in must(store.ended_runs_with_queue(100).await) {
        while !must(queue.remove(QueueName::Run(run.run), 7).await) {}
        must(store.queue_removed(run).await);
    }
    for job in must(store.deleted_jobs(100).await) {
        while must(store.remove_rows(job, 7).await) > 0 {}
        must(store.forget_job(job).await);
    }
}

pub async fn a_deleted_job_is_removed_in_steps_and_disappears(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 30).await;
    world.finish(key, 0, success()).await;
    let held = world.claimed(key, 1).await;
    must(world.backend.store.apply(key.job, Command::Delete, world.now()).await);
    sweep(&world).await;
    sweep(&world).await;
    assert_eq!(must(world.backend.store.job(world.caller, key.job).await), None);
    assert_eq!(must(world.backend.store.run(key.job, key.run).await), None);
    // A worker that was still at it finds nothing to settle, and nothing reappears.
    world.settle(key, &held, failure(FailureClass::Other)).await;
    assert_eq!(must(world.backend.store.run(key.job, key.run).await), None);
    assert_eq!(must(world.backend.store.task(key, held.task).await), None);
    let depth = must(world.backend.queue.depth(QueueName::Run(key.run), world.now()).await);
    assert_eq!(depth.visible + depth.hidden, 0);
    assert!(must(world.backend.store.deleted_jobs(9).await).is_empty());
}

pub async fn a_half_removed_job_can_still_be_read(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 5).await;
    let store = &world.backend.store;
    must(store.apply(key.job, Command::Delete, world.now()).await);
    while must(store.remove_rows(key.job, 2).await) > 0 {
        assert_eq!(world.view(key).await.job.status, JobStatus::Deleted);
    }
    // Its queue is still there: the job must not be forgotten before it.
    must(store.forget_job(key.job).await);
    assert_eq!(world.view(key).await.job.status, JobStatus::Deleted);
    must(store.apply(key.job, Command::Delete, world.now()).await);
    sweep(&world).await;
    assert_eq!(must(store.job(world.caller, key.job).await), None);
}

pub async fn nothing_of_a_live_job_is_removed(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 3).await;
    assert_eq!(must(world.backend.store.remove_rows(key.job, 100).await), 0);
    must(world.backend.store.forget_job(key.job).await);
    sweep(&world).await;
    assert_eq!(world.view(key).await.latest.stats.total, 3);
    world.finish(key, 2, success()).await;
}
