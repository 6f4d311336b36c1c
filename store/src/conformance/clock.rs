//! Rules of removal by time when the time is in doubt (SPEC 6.26).

use super::world::{must, success};
use super::{Harness, World};
use crate::clock_watch;
use crate::port::{Chore, Mark, Removal, RunKey};
use conveyor_domain::{Command, Storage, Timestamp, limits};

const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60 * MINUTE;

async fn observe(world: &World) {
    must(clock_watch::observe(world.backend.store.as_ref(), world.now()).await);
}

/// What a sweeper removes because of its age, by the time that it may go by.
async fn remove_old(world: &World) {
    let store = &world.backend.store;
    let now = must(clock_watch::removal_time(store.as_ref(), world.now()).await);
    let kept = limits::ROWS_KEPT + world.backend.capabilities.removes_by_itself_within;
    let before = Timestamp(now.0 - i64::try_from(kept.as_millis()).unwrap_or(i64::MAX));
    for run in world.due_runs(Chore::ExpiredRuns { ended_before: before }, 9).await {
        while must(store.remove_rows(Removal::Run(run), 100).await) > 0 {}
        must(store.mark(run, Mark::RowsGone(Storage::Expired)).await);
    }
    for upload in world.expired_uploads(now).await {
        if must(store.doom_upload(upload, None, now).await) {
            must(store.forget_upload(upload).await);
        }
    }
}

/// Whether the task of a run, and an upload, are there.
async fn is_kept(world: &World, key: RunKey) -> (bool, bool) {
    let store = &world.backend.store;
    let expired = world.expired_uploads(Timestamp(i64::MAX)).await;
    (must(store.task(key, World::task(key, 0)).await).is_some(), !expired.is_empty())
}

/// A run that ended, an upload that nobody used, and a clock that is 60 days ahead from now on.
async fn jumped(world: &World) -> RunKey {
    let key = world.submit(false, 1).await;
    world.finish(key, 0, success()).await;
    must(world.backend.store.apply(key.job, Command::Stop, world.now()).await);
    world.upload().await;
    observe(world).await;
    world.pass(60 * DAY);
    observe(world).await;
    remove_old(world).await;
    assert_eq!(is_kept(world, key).await, (true, true), "nothing is removed by a time in doubt");
    key
}

pub async fn a_jump_of_the_clock_removes_nothing(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = jumped(&world).await;
    let crashed = harness.crash().await;
    let world = world.on(crashed.backend());
    remove_old(&world).await;
    assert_eq!(is_kept(&world, key).await, (true, true), "nor after a restart");
    world.pass(-60 * DAY + MINUTE);
    observe(&world).await;
    remove_old(&world).await;
    assert_eq!(is_kept(&world, key).await, (true, true));
    let now = must(clock_watch::removal_time(world.backend.store.as_ref(), world.now()).await);
    assert_eq!(now, world.now(), "the time is right, and nothing is left of the doubt");
}

pub async fn a_time_that_holds_for_an_hour_removes_what_is_past_it(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = jumped(&world).await;
    for _ in 0..11 {
        world.pass(5 * MINUTE);
        observe(&world).await;
    }
    remove_old(&world).await;
    assert_eq!(is_kept(&world, key).await, (true, true), "55 minutes");
    world.pass(5 * MINUTE);
    observe(&world).await;
    remove_old(&world).await;
    assert_eq!(is_kept(&world, key).await, (false, false), "an hour");
}

pub async fn a_time_that_is_confirmed_removes_what_is_past_it(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = jumped(&world).await;
    let watch = must(clock_watch::confirm(world.backend.store.as_ref(), world.now()).await);
    assert!(!watch.is_doubted(world.now()));
    remove_old(&world).await;
    assert_eq!(is_kept(&world, key).await, (false, false));
}
