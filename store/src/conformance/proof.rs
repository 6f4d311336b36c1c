//! Rules of counting what is there (SPEC 6.14). What becomes of damage is up to each backend's own tests: no port makes any.

use super::world::{failure, must, problem, success};
use super::{Harness, World};
use crate::port::{Claim, NamedObjects, RunKey, Settle, SettleGroup, Settled, Tally};
use conveyor_domain::repair::proof::drift;
use conveyor_domain::{Command, Counts, FailureClass, Outcome, ResultRef, RowCounts, RunId, Sums, WorkerId};
use std::sync::Arc;

pub(super) async fn tally(world: &World, key: RunKey) -> Tally {
    must(world.backend.store.tally(key, false).await).expect("the run is there")
}

pub async fn a_tally_counts_rows_by_what_became_of_them(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let (before, key, after) =
        (world.submit(false, 3).await, world.submit(false, 9).await, world.submit(false, 3).await);
    assert!(before.run != key.run && after.run != key.run, "neighbours must not leak in");
    world.finish(key, 0, success()).await;
    world.finish(key, 1, failure(FailureClass::Blocked)).await;
    world.finish(key, 2, failure(FailureClass::Blocked)).await;
    world.finish(key, 3, failure(FailureClass::Other)).await;
    world.claimed(key, 4).await;
    world.finish(key, 5, Outcome::Retry { problem: problem(), not_before: world.now() }).await;
    world.finish(key, 6, Outcome::Release).await;
    let settled = Counts { successful: 1, failed: [0, 2, 0, 0, 0, 0, 1] };
    let found = tally(&world, key).await;
    assert_eq!(found.rows, RowCounts { pending: 4, processing: 1, settled, unclassified: 0 });
    assert_eq!((found.counters, found.revision), (Sums::from(settled), 0));
    assert_eq!((found.run.id, found.objects), (key.run, NamedObjects::default()), "not asked for");
    let nowhere = RunKey { job: key.job, run: RunId::new(world.now(), &world.entropy) };
    assert!(must(world.backend.store.tally(nowhere, false).await).is_none());
}

pub async fn a_tally_names_the_objects_of_results(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 7).await;
    for (index, object) in [(0, Some("a/1")), (1, Some("a/2")), (2, Some("a/1")), (3, None)] {
        let Outcome::Successful(result) = success() else { panic!("a success") };
        let result = ResultRef { object: object.map(str::to_owned), ..result };
        world.finish(key, index, Outcome::Successful(result)).await;
    }
    world.finish(key, 4, failure(FailureClass::Timeout)).await;
    let found = must(world.backend.store.tally(key, true).await).expect("the run is there");
    let mut objects = found.objects;
    assert_eq!(objects.places().collect::<Vec<_>>(), ["a"]);
    assert_eq!((objects.none(), objects.take("a/1"), objects.take("a/1"), objects.left()), (1, 2, 0, 1));
    assert_eq!((objects.take("a/3"), objects.take("a/2"), objects.left()), (0, 1, 0));
}

pub async fn a_tally_is_exact_while_workers_settle(harness: &dyn Harness) {
    let world = Arc::new(World::new(harness.backend()));
    let key = world.submit(false, 60).await;
    // Three workers at the same rows at once, each with counters of its own.
    let work = |n: u32| {
        let world = world.clone();
        tokio::spawn(async move {
            let worker = WorkerId::new(world.now(), &world.entropy);
            for index in (0..60).map(|i| (i + n * 20) % 60) {
                let Claim::Claimed(claimed) = world.claim(key, index).await else { continue };
                let class = FailureClass::ALL[index as usize % FailureClass::ALL.len()];
                let outcome = if index % 2 == 0 { success() } else { failure(class) };
                let settles = vec![Settle::new(&claimed, outcome)];
                must(world.backend.store.settle(SettleGroup { key, worker, settles }, world.now()).await);
            }
        })
    };
    let workers: Vec<_> = (0..3).map(work).collect();
    while !workers.iter().all(|worker| worker.is_finished()) {
        let found = tally(&world, key).await;
        assert!(drift(&found.rows, &found.counters).is_zero(), "{found:?}");
        assert_eq!(found.rows.all(), 60, "{found:?}");
        tokio::task::yield_now().await;
    }
    for worker in workers {
        must(worker.await);
    }
    let found = tally(&world, key).await;
    assert_eq!((found.rows.settled.completed(), found.counters.completed()), (60, 60));
    assert!(drift(&found.rows, &found.counters).is_zero(), "{found:?}");
}

pub async fn a_correction_is_added_once(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 4).await;
    let held = world.claimed(key, 1).await;
    world.finish(key, 0, success()).await;
    let store = &world.backend.store;
    let seen = tally(&world, key).await.revision;
    let missing = Sums { successful: 2, failed: [0, 0, 1, 0, 0, 0, 0] };
    // Workers go on between the look and the correction: that moves both sides.
    assert_eq!(world.settle(key, &held, success()).await, Settled::Applied);
    assert!(must(store.correct(key, missing, seen, world.now()).await));
    assert!(!must(store.correct(key, missing, seen, world.now()).await), "somebody did already");
    let crashed = harness.crash().await;
    let after = world.on(crashed.backend());
    let found = tally(&after, key).await;
    assert_eq!(found.counters, Sums { successful: 4, failed: [0, 0, 1, 0, 0, 0, 0] });
    assert_ne!(found.revision, seen);
    let counts = after.view(key).await.latest_run().stats.counts;
    assert_eq!((counts.successful, counts.failed_total()), (4, 1), "readers see it");
    let store = &after.backend.store;
    let back = drift(&found.rows, &found.counters);
    assert_eq!(back, Sums { successful: -2, failed: [0, 0, -1, 0, 0, 0, 0] });
    assert!(must(store.correct(key, back, found.revision, after.now()).await));
    let found = tally(&after, key).await;
    assert!(drift(&found.rows, &found.counters).is_zero(), "{found:?}");
    assert_eq!(after.view(key).await.latest_run().stats.counts.completed(), 2);
}

pub async fn nobody_sees_a_count_below_zero(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 3).await;
    world.finish(key, 0, success()).await;
    let store = &world.backend.store;
    let missing = Sums { successful: -6, failed: [0, -2, 0, 0, 0, 0, 0] };
    assert!(must(store.correct(key, missing, 0, world.now()).await));
    let found = tally(&world, key).await;
    assert_eq!(found.counters, Sums { successful: -5, failed: [0, -2, 0, 0, 0, 0, 0] });
    let run = must(store.run(key.job, key.run).await).expect("the run is there");
    assert_eq!((run.stats.counts, world.view(key).await.latest_run().stats.counts), Default::default());
    assert!(
        must(store.changed_runs(None, world.now()).await)
            .active
            .iter()
            .all(|active| active.stats.counts.is_zero())
    );
    world.finish(key, 1, success()).await;
    let missing = drift(&found.rows, &found.counters);
    assert!(must(store.correct(key, missing, found.revision, world.now()).await));
    assert_eq!(
        world.view(key).await.latest_run().stats.counts.successful,
        2,
        "what was done meanwhile counts"
    );
}

pub async fn a_run_is_complete_by_its_corrected_counts(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 2).await;
    let store = &world.backend.store;
    world.finish(key, 0, success()).await;
    let wrong = Sums { successful: -1, ..Sums::default() };
    assert!(must(store.correct(key, wrong, 0, world.now()).await));
    world.finish(key, 1, success()).await;
    assert!(store.apply(key.job, Command::Drained, world.now()).await.is_err(), "one is not counted");
    let found = tally(&world, key).await;
    let missing = drift(&found.rows, &found.counters);
    assert!(must(store.correct(key, missing, found.revision, world.now()).await));
    let view = must(store.apply(key.job, Command::Drained, world.now()).await);
    assert_eq!(view.latest_run().run.status, conveyor_domain::RunStatus::Completed);
}
