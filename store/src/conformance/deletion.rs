//! Rules of deleting one run (SPEC 6.6).

use super::ingest::{accepted, append, chunk, commit, opened, state};
use super::proof::tally;
use super::retention::sweep;
use super::world::{failure, must, success};
use super::{Harness, World};
use crate::port::{
    Appended, Chore, Claim, Error, Mark, Reader, Removal, RunKey, RunsQuery, Settled, StatusFilter,
    TasksQuery,
};
use conveyor_domain::repair::proof::drift;
use conveyor_domain::{
    Command, FailureClass, JobEvent, JobStatus, LifecycleEvent, QueueName, Refusal, RunId, RunStatus,
    Storage, Sums, limits,
};

async fn delete(world: &World, key: RunKey) {
    let view = must(world.backend.store.delete_run(key, world.now()).await);
    assert_eq!((view.run.id, view.run.status, view.run.latched), (key.run, RunStatus::Deleted, true));
}

/// Nobody sees the run, but the job can be read, and says that it is gone.
async fn assert_removed(world: &World, key: RunKey) {
    let store = &world.backend.store;
    assert_eq!(must(store.run(key.job, key.run).await), None);
    assert!(must(store.runs(RunsQuery::newest(key.job, 9)).await).rows.is_empty());
    assert_eq!(must(store.task(key, World::task(key, 0)).await), None);
    assert_eq!(must(store.attempts(key, World::task(key, 0)).await), None);
    let query = TasksQuery { key, filter: StatusFilter::All, after: None, limit: 9, max_bytes: usize::MAX };
    match store.tasks(query).await {
        Ok(tasks) => assert!(tasks.is_empty(), "{tasks:?}"),
        Err(error) => assert_eq!(error, Error::NotFound),
    }
    assert!(must(store.tally(key, true).await).is_none());
    assert!(!must(store.correct(key, Sums::default(), 0, world.now()).await));
    assert!(must(store.ingest(key, Reader::Role).await).is_none());
    assert!(must(store.ingesting_runs(None, 9).await).is_empty());
    assert!(must(store.changed_runs(None, world.now()).await).active.is_empty());
    assert!(world.due_runs(Chore::DeletedRuns, 9).await.is_empty(), "there is nothing left to remove");
    assert_eq!(store.delete_run(key, world.now()).await, Err(Error::NotFound));
    let depth = must(world.backend.queue.depth(QueueName::Run(key.run), Reader::Role, world.now()).await);
    assert_eq!(depth.visible + depth.hidden, 0);
    let view = world.view(key).await;
    assert_eq!((view.job.status, view.latest_run().run.storage), (JobStatus::Closed, Storage::Removed));
    assert!(view.latest_run().stats.counts.is_zero(), "its counters went as well");
}

pub async fn a_live_run_is_deleted_and_its_job_is_closed(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(true, 20).await;
    world.finish(key, 0, success()).await;
    let held = (world.claimed(key, 1).await, world.claimed(key, 2).await);
    delete(&world, key).await;
    delete(&world, key).await;
    let store = &world.backend.store;
    assert_eq!(world.view(key).await.job.status, JobStatus::Closed);
    assert_eq!(world.claim(key, 3).await, Claim::Gone);
    let refused = store.add_tasks(key.job, World::inputs(1), false, 100, None, world.now()).await;
    assert!(matches!(refused, Err(Error::Refused(_))), "{:?}", refused.err());
    assert!(must(store.changed_runs(None, world.now()).await).active.is_empty());
    assert_eq!(world.settle(key, &held.0, success()).await, Settled::Applied, "its row is still there");
    let found = tally(&world, key).await;
    assert!(drift(&found.rows, &found.counters).is_zero(), "{found:?}");
    assert_eq!(world.due_runs(Chore::DeletedRuns, 9).await, [key]);
    sweep(&world).await;
    assert_removed(&world, key).await;
    let late = failure(FailureClass::Other);
    assert_eq!(world.settle(key, &held.1, late).await, Settled::Lost, "its row is gone");
    assert!(store.put_tasks(key, vec![(0, World::inputs(1).remove(0))], world.now()).await.is_err());
    assert_removed(&world, key).await;
}

pub async fn a_run_that_ended_is_deleted_with_its_results(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 1).await;
    world.finish(key, 0, success()).await;
    let store = &world.backend.store;
    must(store.apply(key.job, Command::Drained, world.now()).await);
    world.pass(10);
    delete(&world, key).await;
    let events = must(store.events(key.job, 0, 99).await);
    let last = events.last().map(|entry| (entry.run, &entry.event));
    assert_eq!(last, Some((key.run, &JobEvent::Lifecycle(LifecycleEvent::RunDeleted))));
    let before = events.len();
    delete(&world, key).await;
    assert_eq!(must(store.events(key.job, 0, 99).await).len(), before, "a repeat changes nothing");
    sweep(&world).await;
    let crashed = harness.crash().await;
    let after = world.on(crashed.backend());
    assert_removed(&after, key).await;
    assert_eq!(must(after.backend.store.events(key.job, 0, 99).await), events, "what happened stays");
    must(after.backend.store.apply(key.job, Command::Delete, after.now()).await);
    sweep(&after).await;
    assert_eq!(must(after.backend.store.job(Some(after.caller), key.job).await), None);
}

pub async fn a_run_of_a_deleted_job_goes_with_its_job(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 1).await;
    world.finish(key, 0, success()).await;
    let store = &world.backend.store;
    must(store.apply(key.job, Command::Drained, world.now()).await);
    must(store.apply(key.job, Command::Delete, world.now()).await);
    let events = must(store.events(key.job, 0, 99).await);
    let refused = store.delete_run(key, world.now()).await;
    assert_eq!(refused.map(drop), Err(Error::Refused(Refusal::JobDeleted)));
    assert_eq!(must(store.events(key.job, 0, 99).await), events, "nothing happened");
}

pub async fn the_ingest_of_a_deleted_run_is_over(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = accepted(&world).await;
    append(&world, key, opened()).await;
    commit(&world, key, 4).await;
    let view = state(&world, key).await;
    delete(&world, key).await;
    let store = &world.backend.store;
    assert!(must(store.ingest(key, Reader::Role).await).is_none());
    assert!(must(store.ingesting_runs(None, 9).await).is_empty());
    assert_eq!(must(store.commit_chunk(key, chunk(&view, 4), world.now()).await), Appended::Gone);
    sweep(&world).await;
    assert_eq!(must(store.commit_chunk(key, chunk(&view, 4), world.now()).await), Appended::Gone);
    assert_removed(&world, key).await;
}

pub async fn a_deleted_run_lets_go_of_its_upload(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = accepted(&world).await;
    let store = &world.backend.store;
    world.pass(i64::try_from(limits::UPLOAD_TTL.as_millis()).unwrap_or(i64::MAX));
    delete(&world, key).await;
    assert!(world.expired_uploads(world.now()).await.is_empty(), "it is still removed");
    sweep(&world).await;
    let expired = world.expired_uploads(world.now()).await;
    assert_eq!(expired.len(), 1);
    assert!(must(store.doom_upload(expired[0], None, world.now()).await));
}

pub async fn nothing_of_a_run_that_is_kept_is_removed(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let (live, ended) = (world.submit(false, 2).await, world.submit(false, 1).await);
    let store = &world.backend.store;
    world.finish(live, 0, success()).await;
    world.finish(ended, 0, success()).await;
    must(store.apply(ended.job, Command::Drained, world.now()).await);
    assert!(world.due_runs(Chore::DeletedRuns, 9).await.is_empty());
    assert_eq!(must(store.remove_rows(Removal::Run(live), 9).await), 0, "it has not ended");
    for storage in Storage::ALL {
        must(store.mark(live, Mark::RowsGone(storage)).await);
    }
    for storage in [Storage::Kept, Storage::Removed] {
        must(store.mark(ended, Mark::RowsGone(storage)).await);
    }
    for key in [live, ended] {
        let run = must(store.run(key.job, key.run).await).expect("the run is there");
        assert_eq!((run.run.storage, run.stats.counts.successful), (Storage::Kept, 1));
    }
    world.finish(live, 1, success()).await;
}

pub async fn a_run_that_is_not_there_cannot_be_deleted(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let (key, other) = (world.submit(false, 1).await, world.submit(false, 1).await);
    let store = &world.backend.store;
    let nowhere = RunKey { job: key.job, run: RunId::new(world.now(), &world.entropy) };
    for wrong in [nowhere, RunKey { job: key.job, run: other.run }] {
        assert_eq!(store.delete_run(wrong, world.now()).await, Err(Error::NotFound));
    }
    assert_eq!(world.view(key).await.latest_run().run.status, RunStatus::Running);
    assert_eq!(world.view(other).await.latest_run().run.status, RunStatus::Running);
}
