//! Rows against counters while workers go on, and after real damage.

use super::rows::{self, number, sort_key};
use super::{counted, open_on};
use conveyor_domain::repair::proof::drift;
use conveyor_domain::{ClaimToken, FailureClass, Outcome, Problem, Sums, TaskRef, WorkerId};
use conveyor_store::conformance::{World, success};
use conveyor_store::port::{Claim, RunKey, Settle, SettleGroup, Settled, Tally};
use metrics_util::debugging::DebuggingRecorder;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

fn worker(number: u8) -> WorkerId {
    WorkerId::from_bytes([number; 16])
}

/// Every third task fails, now for one reason and now for another.
fn outcome(index: u32) -> Outcome {
    let problem = Problem::new(503, "http_503", "The gateway answered 503");
    match index % 6 {
        0 => Outcome::Failed { class: FailureClass::Timeout, problem },
        3 => Outcome::Failed { class: FailureClass::Blocked, problem },
        _ => success(),
    }
}

/// What tasks from one index to another add up to.
fn expected(indexes: Range<u32>) -> Sums {
    let mut sums = Sums::default();
    for index in indexes {
        match outcome(index) {
            Outcome::Failed { class, .. } => sums.failed[class as usize] += 1,
            _ => sums.successful += 1,
        }
    }
    sums
}

fn minus(sums: Sums) -> Sums {
    Sums { successful: -sums.successful, failed: sums.failed.map(|n| -n) }
}

async fn claim(world: &World, key: RunKey, indexes: Range<u32>) -> Vec<Settle> {
    let shards = world.task_ref(key, 0).await.task_shard_count;
    let claims = indexes.clone().map(|index| {
        let task = TaskRef { task: World::task(key, index), task_shard_count: shards };
        (task, ClaimToken::new(&world.entropy))
    });
    let claims = world.backend.store.claim(key, claims.collect(), 20, world.now()).await.unwrap();
    let settle = |(index, claim)| match claim {
        Claim::Claimed(task) => Settle::new(&task, outcome(index)),
        other => panic!("task {index}: {other:?}"),
    };
    indexes.zip(claims).map(settle).collect()
}

/// Works tasks off, a few in each transaction.
async fn work(world: &World, key: RunKey, by: WorkerId, indexes: Range<u32>, group: usize) {
    for first in indexes.clone().step_by(group) {
        let last = indexes.end.min(first + group as u32);
        let settles = claim(world, key, first..last).await;
        let group = SettleGroup { key, worker: by, settles };
        let answers = world.backend.store.settle(group, world.now()).await.unwrap();
        assert!(answers.iter().all(|answer| *answer == Settled::Applied), "{answers:?}");
    }
}

async fn tally(world: &World, key: RunKey) -> Tally {
    world.backend.store.tally(key, false).await.unwrap().expect("the run is there")
}

fn missing(tally: &Tally) -> Sums {
    drift(&tally.rows, &tally.counters)
}

/// Tallies again and again for as long as somebody works, and at least once after that.
async fn tally_beside(world: &World, key: RunKey, working: &AtomicUsize, wrong: Sums) -> usize {
    let mut moved = std::collections::BTreeSet::new();
    loop {
        let last = working.load(Ordering::SeqCst) == 0;
        let tally = tally(world, key).await;
        assert_eq!(missing(&tally), wrong, "{:?} against {:?}", tally.rows, tally.counters);
        assert_eq!(tally.rows.all(), tally.run.total);
        moved.insert(tally.counters.completed());
        if last {
            return moved.len();
        }
    }
}

async fn until_done(working: &AtomicUsize, work: impl Future<Output = ()>) {
    work.await;
    working.fetch_sub(1, Ordering::SeqCst);
}

#[tokio::test(flavor = "current_thread")]
async fn a_tally_beside_workers_is_never_wrong() {
    for shards in [16, 1] {
        let (_harness, world) = open_on(shards).await;
        let key = world.submit(false, 450).await;
        let working = AtomicUsize::new(3);
        let works = [(1, 0..150, 7), (2, 150..300, 1), (3, 300..450, 30)]
            .map(|(by, indexes, group)| until_done(&working, work(&world, key, worker(by), indexes, group)));
        let [a, b, c] = works;
        let beside = tally_beside(&world, key, &working, Sums::default());
        let ((), (), (), moments) = tokio::join!(a, b, c, beside);
        assert!(moments > 3, "the tallies were of the same moment");
        let all = world.backend.store.tally(key, true).await.unwrap().unwrap();
        assert_eq!(Sums::from(all.rows.settled), expected(0..450));
        assert_eq!(all.objects.left(), all.rows.settled.successful);
    }
}

/// Breaks the counter row of a worker that is done, in every way, while others go on.
#[tokio::test(flavor = "current_thread")]
async fn a_damaged_counter_is_found_to_the_last_task_and_mended_once_while_others_go_on() {
    let (harness, world) = open_on(16).await;
    let key = world.submit(false, 420).await;
    work(&world, key, worker(9), 0..60, 20).await;
    let pk = format!("Job#{}", key.job);
    let broken = format!("C#{}#{}#0", key.run, worker(9));
    let done = expected(0..60);
    let set_to = |successful: i64| Sums { successful: done.successful - successful, ..Sums::default() };

    let mut first = 60;
    for round in 0..3 {
        let wrong = match round {
            0 => {
                rows::set(&harness, &pk, &broken, &[("s", Some(10_000_000))]).await;
                set_to(10_000_000)
            }
            1 => {
                rows::set(&harness, &pk, &broken, &[("s", Some(-5))]).await;
                set_to(-5).plus(minus(set_to(10_000_000)))
            }
            _ => {
                rows::delete(&harness, &pk, &broken).await;
                done.plus(minus(set_to(-5)))
            }
        };
        let working = AtomicUsize::new(2);
        let (a, b) = (first..first + 60, first + 60..first + 120);
        first += 120;
        let works = [(1, a), (2, b)]
            .map(|(by, indexes)| until_done(&working, work(&world, key, worker(by), indexes, 6)));
        let [a, b] = works;
        let mend = async {
            let found = tally(&world, key).await;
            assert_eq!(missing(&found), wrong, "round {round}");
            let correct = || world.backend.store.correct(key, missing(&found), found.revision, world.now());
            let (one, other) = tokio::join!(correct(), correct());
            assert!(one.unwrap() != other.unwrap(), "of two who found it, one adds it");
            tally_beside(&world, key, &working, Sums::default()).await;
            assert!(!correct().await.unwrap(), "it was seen before it was mended");
        };
        tokio::join!(a, b, mend);
        let counts = world.view(key).await.latest_run().stats.counts;
        assert_eq!(Sums::from(counts), expected(0..first), "round {round}");
    }
}

/// The worker whose counter row is gone makes it anew, and does not know that it was there before.
#[tokio::test(flavor = "current_thread")]
async fn a_counter_that_is_lost_under_its_worker_is_found() {
    let (harness, world) = open_on(1).await;
    let key = world.submit(false, 100).await;
    work(&world, key, worker(1), 0..40, 8).await;
    let pk = format!("Job#{}", key.job);
    rows::delete(&harness, &pk, &format!("C#{}#{}#0", key.run, worker(1))).await;
    work(&world, key, worker(1), 40..90, 8).await;
    let found = tally(&world, key).await;
    assert_eq!(missing(&found), expected(0..40));
    assert_eq!((found.rows.pending, found.rows.processing), (10, 0));
    assert!(world.backend.store.correct(key, missing(&found), found.revision, world.now()).await.unwrap());
    work(&world, key, worker(1), 90..100, 8).await;
    assert!(missing(&tally(&world, key).await).is_zero());
    assert_eq!(Sums::from(world.view(key).await.latest_run().stats.counts), expected(0..100));
}

#[tokio::test(flavor = "current_thread")]
async fn a_count_that_is_late_is_refused_and_made_again_later() {
    let (harness, world) = open_on(1).await;
    let key = world.submit(false, 20).await;
    work(&world, key, worker(1), 0..10, 10).await;
    let (pk, counter) = (format!("Job#{}", key.job), format!("C#{}#{}#0", key.run, worker(1)));
    // As if somebody had counted there meanwhile.
    let later = 1_000_000_000;
    rows::set(&harness, &pk, &counter, &[("n", Some(later))]).await;
    let settles = claim(&world, key, 10..20).await;
    let recorder = DebuggingRecorder::new();
    let meter = recorder.snapshotter();
    let answers = {
        let _counting = metrics::set_default_local_recorder(&recorder);
        let group = SettleGroup { key, worker: worker(1), settles };
        world.backend.store.settle(group, world.now()).await.unwrap()
    };
    assert!(answers.iter().all(|answer| *answer == Settled::Applied), "{answers:?}");
    let calls = counted(&meter)["conveyor_aws_calls_total TransactWriteItems"];
    assert_eq!(calls, 2, "one was refused, and one was not");
    let row = rows::rows(&harness, &pk, &counter).await.remove(0);
    assert!(number(&row, "n").unwrap() > later);
    assert!(missing(&tally(&world, key).await).is_zero());
    assert_eq!(Sums::from(world.view(key).await.latest_run().stats.counts), expected(0..20));
}

/// Rows and counters as a version left them that kept no moments and no classes.
#[tokio::test(flavor = "current_thread")]
async fn rows_of_an_earlier_version_are_counted_while_nothing_is_settled() {
    let (harness, world) = open_on(1).await;
    let key = world.submit(false, 30).await;
    work(&world, key, worker(1), 0..24, 6).await;
    let pk = format!("Job#{}", key.job);
    for row in rows::rows(&harness, &pk, "T#").await {
        rows::set(&harness, &pk, sort_key(&row), &[("cb", None), ("fc", None), ("ttl", None)]).await;
    }
    rows::set(&harness, &pk, &format!("C#{}#{}#0", key.run, worker(1)), &[("n", None)]).await;
    let found = tally(&world, key).await;
    assert_eq!((found.rows.settled.successful, found.rows.unclassified), (16, 8));
    assert!(missing(&found).is_zero());
    // And goes on under this version.
    work(&world, key, worker(1), 24..30, 6).await;
    assert!(missing(&tally(&world, key).await).is_zero());
}

#[tokio::test(flavor = "current_thread")]
async fn rows_have_a_time_to_live_once_they_are_settled_and_not_before() {
    let (harness, world) = open_on(1).await;
    let key = world.submit(false, 4).await;
    work(&world, key, worker(1), 0..2, 1).await;
    let held = world.claimed(key, 2).await;
    let retry = Outcome::Retry {
        problem: Problem::new(503, "http_503", "The gateway answered 503"),
        not_before: world.now(),
    };
    assert_eq!(world.settle(key, &held, retry).await, Settled::Applied);
    let pk = format!("Job#{}", key.job);
    let lives: Vec<Option<i64>> =
        rows::rows(&harness, &pk, "T#").await.iter().map(|row| number(row, "ttl")).collect();
    let settled = world.now().0 / 1_000 + 31 * 24 * 3_600;
    assert_eq!(lives, [Some(settled), Some(settled), None, None]);
}
