//! What attempts cost is kept with them and added up with their count (SPEC 6.25).

use super::world::{failure, must, problem};
use super::{Harness, World, success};
use crate::port::{RunsQuery, Settled};
use conveyor_domain::{FailureClass, Outcome, Spend, Sums};

const fn spend(credits: u64, cost_nanos: u64) -> Spend {
    Spend { credits, cost_nanos }
}

fn retry(world: &World) -> Outcome {
    Outcome::Retry { problem: problem(), not_before: world.now() }
}

pub async fn every_attempt_is_added_once_whatever_came_of_it(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 3).await;
    assert_eq!(world.view(key).await.latest_run().stats.spend, Spend::default());
    let first = world.claimed(key, 0).await;
    assert_eq!(world.settle_at(key, &first, retry(&world), spend(1, 100)).await, Settled::Applied);
    let stats = world.view(key).await.latest_run().stats;
    assert_eq!((stats.spend, stats.counts.completed()), (spend(1, 100), 0), "a retry is paid for as well");
    let second = world.claimed(key, 0).await;
    assert_eq!(world.settle_at(key, &second, success(), spend(0, 28_000)).await, Settled::Applied);
    let failed = world.claimed(key, 1).await;
    let outcome = failure(FailureClass::Blocked);
    assert_eq!(world.settle_at(key, &failed, outcome, spend(25, 0)).await, Settled::Applied);
    let released = world.claimed(key, 2).await;
    assert_eq!(world.settle_at(key, &released, Outcome::Release, spend(9, 9)).await, Settled::Applied);
    let stats = world.view(key).await.latest_run().stats;
    assert_eq!((stats.spend, stats.counts.completed()), (spend(26, 28_100), 2));
    let store = &world.backend.store;
    let of = |index| store.attempts(key, World::task(key, index));
    let costs = |attempts: Option<Vec<conveyor_domain::Attempt>>| -> Vec<Spend> {
        attempts.expect("a known task").iter().map(|attempt| attempt.spend).collect()
    };
    assert_eq!(costs(must(of(0).await)), [spend(1, 100), spend(0, 28_000)]);
    assert_eq!(costs(must(of(1).await)), [spend(25, 0)]);
    assert_eq!(costs(must(of(2).await)), [], "a release is no attempt");
    let listed = must(store.runs(RunsQuery::newest(key.job, 10)).await).rows;
    assert_eq!(listed[0].stats.spend, spend(26, 28_100));
}

pub async fn a_repeated_settle_costs_nothing_more(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 2).await;
    for (index, outcome) in [(0, success()), (1, retry(&world))] {
        let claimed = world.claimed(key, index).await;
        assert_eq!(world.settle_at(key, &claimed, outcome.clone(), spend(2, 50)).await, Settled::Applied);
        for _ in 0..3 {
            assert_eq!(world.settle_at(key, &claimed, outcome.clone(), spend(2, 50)).await, Settled::Already);
        }
    }
    let stale = world.claimed(key, 1).await;
    let fresh = world.claimed(key, 1).await;
    assert_eq!(world.settle_at(key, &stale, success(), spend(7, 7)).await, Settled::Lost);
    assert_eq!(world.view(key).await.latest_run().stats.spend, spend(4, 100));
    assert_eq!(world.settle_at(key, &fresh, success(), spend(0, 1)).await, Settled::Applied);
    assert_eq!(world.view(key).await.latest_run().stats.spend, spend(4, 101));
}

pub async fn what_was_spent_survives_a_crash_and_a_correction(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 2).await;
    let claimed = world.claimed(key, 0).await;
    assert_eq!(world.settle_at(key, &claimed, success(), spend(3, 700)).await, Settled::Applied);
    let restarted = harness.crash().await;
    let world = world.on(restarted.backend());
    let tally = must(world.backend.store.tally(key, false).await).expect("a tally");
    let drift = Sums { successful: 1, ..Sums::default() };
    assert!(must(world.backend.store.correct(key, drift, tally.revision, world.now()).await));
    let stats = world.view(key).await.latest_run().stats;
    assert_eq!((stats.counts.successful, stats.spend), (2, spend(3, 700)));
}

pub async fn sums_are_exact_however_large(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 2).await;
    // More than a double tells apart.
    let much = spend(1, 9_007_199_254_740_993);
    for index in 0..2 {
        let claimed = world.claimed(key, index).await;
        assert_eq!(world.settle_at(key, &claimed, success(), much).await, Settled::Applied);
    }
    assert_eq!(world.view(key).await.latest_run().stats.spend, much.plus(much));
}
