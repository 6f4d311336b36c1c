//! Rules of giving tasks an end that is known from elsewhere (SPEC 6.18).

use super::proof::tally;
use super::world::{failure, must, problem, success};
use super::{Harness, World};
use crate::port::{Claim, RunKey, Settled};
use conveyor_domain::repair::proof::drift;
use conveyor_domain::{Command, FailureClass, Outcome, RunId, RunStatus, TaskStatus, WorkerId};

async fn restore(world: &World, key: RunKey, ends: Vec<(u32, Outcome)>) -> Vec<bool> {
    let worker = WorkerId::new(world.now(), &world.entropy);
    let ends = ends.into_iter().map(|(index, outcome)| (World::task(key, index), outcome)).collect();
    must(world.backend.store.restore(key, worker, ends, world.now()).await)
}

async fn assert_counts_agree(world: &World, key: RunKey) {
    let found = tally(world, key).await;
    assert!(drift(&found.rows, &found.counters).is_zero(), "{found:?}");
}

pub async fn a_restored_task_is_terminal_and_counted_once(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 4).await;
    let ends = vec![(0, success()), (2, failure(FailureClass::Timeout)), (9, success())];
    assert_eq!(restore(&world, key, ends.clone()).await, [true, true, false], "the last is not there");
    assert_eq!(restore(&world, key, ends).await, [false; 3]);
    let crashed = harness.crash().await;
    let after = world.on(crashed.backend());
    let counts = after.view(key).await.latest_run().stats.counts;
    assert_eq!((counts.successful, counts.failed), (1, [0, 0, 0, 0, 1, 0, 0]));
    let task = |index| after.backend.store.task(key, World::task(key, index));
    let (first, third) = (must(task(0).await).expect("a task"), must(task(2).await).expect("a task"));
    let Outcome::Successful(result) = success() else { panic!("a success") };
    assert_eq!((first.status, first.result), (TaskStatus::Successful, Some(result)));
    assert_eq!((third.status, third.class), (TaskStatus::Failed, Some(FailureClass::Timeout)));
    assert_eq!(third.error, Some(problem()));
    let attempts = must(after.backend.store.attempts(key, first.id).await).expect("a known task");
    assert_eq!(attempts.iter().map(|attempt| attempt.number).collect::<Vec<_>>(), [1]);
    assert_eq!(after.claim(key, 0).await, Claim::Terminal);
    assert_counts_agree(&after, key).await;
}

pub async fn a_terminal_task_stays_as_it_is(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 2).await;
    world.finish(key, 0, failure(FailureClass::Blocked)).await;
    world.finish(key, 1, success()).await;
    let read = async |index| must(world.backend.store.task(key, World::task(key, index)).await);
    let before = (read(0).await, read(1).await);
    world.pass(10);
    let ends = vec![(0, success()), (1, failure(FailureClass::Other))];
    assert_eq!(restore(&world, key, ends).await, [false, false]);
    assert_eq!((read(0).await, read(1).await), before);
    assert_counts_agree(&world, key).await;
}

pub async fn whoever_holds_a_restored_task_has_lost_it(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 1).await;
    let held = world.claimed(key, 0).await;
    assert_eq!(restore(&world, key, vec![(0, success())]).await, [true]);
    assert_eq!(world.settle(key, &held, success()).await, Settled::Lost, "it is not its result");
    assert_eq!(world.settle(key, &held, failure(FailureClass::Other)).await, Settled::Lost);
    assert_eq!(world.view(key).await.latest_run().stats.counts.successful, 1);
    assert_counts_agree(&world, key).await;
}

pub async fn tasks_are_restored_whatever_state_their_run_is_in(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 4).await;
    let store = &world.backend.store;
    must(store.apply(key.job, Command::Pause, world.now()).await);
    assert_eq!(restore(&world, key, vec![(0, success())]).await, [true]);
    must(store.apply(key.job, Command::Stop, world.now()).await);
    assert_eq!(restore(&world, key, vec![(1, failure(FailureClass::Other))]).await, [true]);
    let view = world.view(key).await.latest_run().clone();
    assert_eq!((view.run.status, view.stats.counts.completed()), (RunStatus::Stopped, 2));
    assert_counts_agree(&world, key).await;
}

pub async fn only_ends_are_restored_and_only_to_tasks_of_the_run(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let (key, other) = (world.submit(false, 2).await, world.submit(false, 2).await);
    let retry = Outcome::Retry { problem: problem(), not_before: world.now() };
    assert_eq!(restore(&world, key, vec![(0, retry), (1, Outcome::Release)]).await, [false, false]);
    let foreign = vec![(World::task(other, 0), success())];
    let store = &world.backend.store;
    assert_eq!(must(store.restore(key, world.worker, foreign, world.now()).await), [false]);
    let nowhere = RunKey { job: key.job, run: RunId::new(world.now(), &world.entropy) };
    assert_eq!(restore(&world, nowhere, vec![(0, success())]).await, [false]);
    assert_eq!(tally(&world, key).await.rows.pending, 2);
    assert_counts_agree(&world, key).await;
}
