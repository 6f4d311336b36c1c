//! Rules of removal (SPEC 6.6, 6.16).

use super::world::{failure, must, success};
use super::{Harness, World};
use crate::port::{Chore, Error, Mark, Reader, Removal, RunKey, StatusFilter, TasksQuery, Tombstone};
use conveyor_domain::repair::Subject;
use conveyor_domain::{Command, FailureClass, JobStatus, QueueName, Storage, Timestamp, limits};

/// Everything that a sweeper does, until there is nothing left to do.
pub(super) async fn sweep(world: &World) {
    let (store, queue) = (&world.backend.store, &world.backend.queue);
    for run in world.due_runs(Chore::EndedQueues, 100).await {
        while !must(queue.remove(QueueName::Run(run.run), 7).await) {}
        must(store.mark(run, Mark::QueueGone).await);
    }
    for run in world.due_runs(Chore::DeletedRuns, 100).await {
        while must(store.remove_rows(Removal::Run(run), 7).await) > 0 {}
        must(store.mark(run, Mark::RowsGone(Storage::Removed)).await);
    }
    for job in must(store.due(Chore::DeletedJobs, 100).await).into_iter().filter_map(Subject::job) {
        while must(store.remove_rows(Removal::Job(job), 7).await) > 0 {}
        must(store.forget_job(job, world.now()).await);
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
    assert_eq!(must(world.backend.store.job(Some(world.caller), key.job).await), None);
    assert_eq!(must(world.backend.store.run(key.job, key.run).await), None);
    // A worker that was still at it finds nothing to settle, and nothing reappears.
    world.settle(key, &held, failure(FailureClass::Other)).await;
    assert_eq!(must(world.backend.store.run(key.job, key.run).await), None);
    assert_eq!(must(world.backend.store.task(key, held.task).await), None);
    let depth = must(world.backend.queue.depth(QueueName::Run(key.run), Reader::Role, world.now()).await);
    assert_eq!(depth.visible + depth.hidden, 0);
    assert!(must(world.backend.store.due(Chore::DeletedJobs, 9).await).is_empty());
}

pub async fn a_half_removed_job_can_still_be_read(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 5).await;
    let store = &world.backend.store;
    must(store.apply(key.job, Command::Delete, world.now()).await);
    while must(store.remove_rows(Removal::Job(key.job), 2).await) > 0 {
        assert_eq!(world.view(key).await.job.status, JobStatus::Deleted);
    }
    // Its queue is still there: the job must not be forgotten before it.
    must(store.forget_job(key.job, world.now()).await);
    assert_eq!(world.view(key).await.job.status, JobStatus::Deleted);
    must(store.apply(key.job, Command::Delete, world.now()).await);
    sweep(&world).await;
    assert_eq!(must(store.job(Some(world.caller), key.job).await), None);
}

pub async fn nothing_of_a_live_job_is_removed(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 3).await;
    assert_eq!(must(world.backend.store.remove_rows(Removal::Job(key.job), 100).await), 0);
    must(world.backend.store.forget_job(key.job, world.now()).await);
    sweep(&world).await;
    assert_eq!(world.view(key).await.latest_run().stats.total, 3);
    world.finish(key, 2, success()).await;
}

/// A job that was deleted, removed and forgotten.
async fn gone(world: &World) -> RunKey {
    let key = world.submit(false, 3).await;
    must(world.backend.store.apply(key.job, Command::Delete, world.now()).await);
    sweep(world).await;
    assert_eq!(must(world.backend.store.job(None, key.job).await), None);
    key
}

pub async fn nobody_can_make_a_job_of_an_id_that_is_gone(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let store = &world.backend.store;
    let upload = world.upload().await;
    let staged = world.staged("list", b"https://a.example\n").await;
    must(store.put_staged(upload.id, staged.clone(), None, world.now()).await);
    let (submission, acceptance) = (world.submission(false, 2), world.acceptance(&upload, &staged));
    must(store.submit(submission.clone()).await);
    must(store.submit(acceptance.clone()).await);
    for job in [submission.job.id, acceptance.job.id] {
        must(store.apply(job, Command::Delete, world.now()).await);
    }
    sweep(&world).await;
    let crashed = harness.crash().await;
    let after = world.on(crashed.backend());
    let store = &after.backend.store;
    // Whoever sends it again was stalled across all of that.
    let again = store.submit(submission.clone()).await;
    assert!(matches!(again, Err(Error::Conflict(_))), "{again:?}");
    let again = store.submit(acceptance.clone()).await;
    assert!(matches!(again, Err(Error::Conflict(_))), "{again:?}");
    for job in [submission.job.id, acceptance.job.id] {
        assert_eq!(must(store.job(None, job).await), None);
        assert!(must(store.events(job, 0, 9).await).is_empty());
        while must(store.remove_rows(Removal::Job(job), 7).await) > 0 {}
    }
    assert!(must(store.changed_runs(None, after.now()).await).active.is_empty());
    assert!(must(store.ingesting_runs(None, 9).await).is_empty());
    assert!(must(store.upload(after.caller, upload.id, after.now()).await).is_some_and(|u| !u.claimed));
}

pub async fn a_job_that_is_gone_is_looked_at_until_it_need_not_be(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let store = &world.backend.store;
    let (gone_at, key) = (world.now(), gone(&world).await);
    assert!(must(store.tombstones(world.now(), 9).await).is_empty(), "not so soon");
    let first = gone_at.after(limits::TOMBSTONE_LOOKS[0]);
    let seen = must(store.tombstones(first, 9).await);
    assert_eq!(seen, [Tombstone { job: key.job, runs: vec![key.run], gone: gone_at, looks: 0 }]);
    let second = gone_at.after(limits::TOMBSTONE_LOOKS[1]);
    must(store.looked_at(&seen[0], Some(second)).await);
    assert!(must(store.tombstones(Timestamp(second.0 - 1), 9).await).is_empty());
    let again = must(store.tombstones(second, 9).await);
    assert_eq!(again, [Tombstone { looks: 1, ..seen[0].clone() }]);
    must(store.looked_at(&again[0], None).await);
    assert!(must(store.tombstones(Timestamp(i64::MAX), 9).await).is_empty());
    must(store.looked_at(&again[0], None).await);
}

pub async fn what_comes_after_a_job_is_gone_can_be_removed(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let store = &world.backend.store;
    let key = gone(&world).await;
    // A store that finds the job gone refuses; one that does not look keeps rows that nobody asked for.
    let _ = store.put_tasks(key, (0..).zip(World::inputs(20)).collect(), world.now()).await;
    while must(store.remove_rows(Removal::Job(key.job), 7).await) > 0 {}
    while !must(world.backend.queue.remove(QueueName::Run(key.run), 7).await) {}
    assert_eq!(must(store.task(key, World::task(key, 0)).await), None);
    assert!(!must(store.forget_job(key.job, world.now()).await), "there is nothing to forget");
    let depth = must(world.backend.queue.depth(QueueName::Run(key.run), Reader::Role, world.now()).await);
    assert_eq!(depth.visible + depth.hidden, 0);
}

pub async fn only_runs_that_ended_before_a_moment_are_past_their_time(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let store = &world.backend.store;
    let (old, live, deleted) =
        (world.submit(false, 2).await, world.submit(false, 2).await, world.submit(false, 2).await);
    must(store.apply(old.job, Command::Stop, world.now()).await);
    must(store.delete_run(deleted, world.now()).await);
    let moment = world.now();
    world.pass(1_000);
    let young = world.submit(false, 1).await;
    must(store.apply(young.job, Command::Stop, world.now()).await);
    assert!(
        world.due_runs(Chore::ExpiredRuns { ended_before: moment }, 9).await.is_empty(),
        "at that moment is not before it"
    );
    assert_eq!(world.due_runs(Chore::ExpiredRuns { ended_before: Timestamp(moment.0 + 1) }, 9).await, [old]);
    let all = world.due_runs(Chore::ExpiredRuns { ended_before: Timestamp(world.now().0 + 1) }, 9).await;
    assert_eq!(all, [old, young], "the one that ended first comes first");
    assert_eq!(
        world.due_runs(Chore::ExpiredRuns { ended_before: Timestamp(world.now().0 + 1) }, 1).await,
        [old]
    );
    assert_eq!(world.view(live).await.latest_run().run.storage, Storage::Kept);
}

pub async fn what_was_counted_of_a_run_outlives_its_rows(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let store = &world.backend.store;
    let key = world.submit(false, 20).await;
    world.finish(key, 0, success()).await;
    world.finish(key, 1, failure(FailureClass::Blocked)).await;
    must(store.apply(key.job, Command::Stop, world.now()).await);
    let before = world.view(key).await.latest_run().stats;
    world.pass(1_000);
    let mut steps = 0;
    while must(store.remove_rows(Removal::Run(key), 7).await) > 0 {
        steps += 1;
    }
    assert!(steps >= 3, "20 rows, 7 a step");
    must(store.mark(key, Mark::RowsGone(Storage::Expired)).await);
    must(store.mark(key, Mark::RowsGone(Storage::Expired)).await);
    let run = must(store.run(key.job, key.run).await).expect("it can be read");
    assert_eq!((run.run.storage, run.stats), (Storage::Expired, before));
    let query = TasksQuery { key, filter: StatusFilter::All, after: None, limit: 9, max_bytes: usize::MAX };
    assert!(must(store.tasks(query).await).is_empty());
    assert!(
        world.due_runs(Chore::ExpiredRuns { ended_before: world.now() }, 9).await.is_empty(),
        "there is nothing left to remove"
    );
    must(store.delete_run(key, world.now()).await);
    assert_eq!(world.due_runs(Chore::DeletedRuns, 9).await, [key], "its counters are left");
    sweep(&world).await;
    assert_eq!(must(store.run(key.job, key.run).await), None);
}

pub async fn a_job_past_its_time_lets_go_of_its_upload(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let store = &world.backend.store;
    let key = super::ingest::accepted(&world).await;
    must(store.apply(key.job, Command::Stop, world.now()).await);
    world.pass(i64::try_from(limits::UPLOAD_TTL.as_millis()).unwrap_or(i64::MAX));
    assert!(world.expired_uploads(world.now()).await.is_empty(), "a run is kept");
    while must(store.remove_rows(Removal::Run(key), 7).await) > 0 {}
    must(store.mark(key, Mark::RowsGone(Storage::Expired)).await);
    assert_eq!(world.expired_uploads(world.now()).await.len(), 1);
}
