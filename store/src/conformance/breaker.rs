//! The breaker is decided on what all workers have counted, in one step with the pause (SPEC 6.25).

use super::world::{failure, must};
use super::{Harness, World, success};
use crate::port::{Claim, RunKey};
use conveyor_domain::{
    Command, FailureClass, FailureRatio, JobEvent, LifecycleEvent, LimitsChange, PauseCode, Run, RunId,
};

async fn apply(world: &World, key: RunKey, command: Command) -> Run {
    must(world.backend.store.apply(key.job, command, world.now()).await).latest_run().run.clone()
}

/// A run of which so many tasks failed.
async fn failing(world: &World, failed: u32, ratio: f64) -> RunKey {
    let key = world.submit(false, failed + 30).await;
    let change =
        LimitsChange { max_failure_ratio: Some(FailureRatio::new(ratio)), ..LimitsChange::default() };
    apply(world, key, Command::Limits(change)).await;
    for index in 0..failed {
        world.finish(key, index, failure(FailureClass::Blocked)).await;
    }
    key
}

pub async fn a_run_that_fails_too_much_is_paused_and_says_why(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = failing(&world, 19, 0.5).await;
    let trip = Command::Trip { run: key.run };
    assert!(!apply(&world, key, trip.clone()).await.paused, "too few to tell");
    world.finish(key, 19, failure(FailureClass::Timeout)).await;
    let earlier = Command::Trip { run: RunId::from_bytes([9; 16]) };
    assert!(!apply(&world, key, earlier).await.paused, "another run's");
    let tripped = apply(&world, key, trip.clone()).await;
    let reason = tripped.doc.pause.clone().expect("a reason");
    assert_eq!((tripped.paused, reason.code), (true, PauseCode::FailureRatio));
    assert_eq!(world.claim(key, 20).await, Claim::Paused);
    assert_eq!(apply(&world, key, trip).await, tripped, "once");
    let crashed = harness.crash().await;
    let world = world.on(crashed.backend());
    assert_eq!(world.view(key).await.latest_run().run, tripped);
    let events = must(world.backend.store.events(key.job, 0, 100).await);
    let paused = events.iter().filter_map(|entry| match &entry.event {
        JobEvent::Lifecycle(LifecycleEvent::RunPaused { reason }) => Some(reason.clone()),
        JobEvent::Lifecycle(_) | JobEvent::Ingest(_) => None,
    });
    assert_eq!(paused.collect::<Vec<_>>(), [Some(reason)]);
}

pub async fn a_resumed_run_is_judged_by_what_comes_then(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = failing(&world, 25, 0.5).await;
    let trip = Command::Trip { run: key.run };
    assert!(apply(&world, key, trip.clone()).await.paused);
    let resumed = apply(&world, key, Command::Resume).await;
    assert_eq!((resumed.paused, resumed.doc.pause), (false, None));
    assert!(!apply(&world, key, trip.clone()).await.paused, "what was is forgiven");
    for index in 25..45 {
        world.finish(key, index, success()).await;
    }
    assert!(!apply(&world, key, trip).await.paused);
}
