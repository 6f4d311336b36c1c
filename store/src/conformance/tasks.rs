//! Rules of task rows (SPEC 3.2, 3.5, 6.3, 6.4).

use super::proof::tally;
use super::world::{CLAIMS_MAX, POLLS_MAX, broken_off, failure, must, problem, success};
use super::{Harness, World};
use crate::port::{
    Claim, ClaimedTask, Reader, RunKey, Settle, SettleGroup, Settled, StatusFilter, TasksQuery,
};
use conveyor_domain::repair::proof::drift;
use conveyor_domain::{
    ClaimToken, Command, FailureClass, Outcome, RunId, Task, TaskId, TaskStatus, Timestamp, WorkerId,
};
use std::sync::Arc;

async fn page(
    world: &World,
    key: RunKey,
    filter: StatusFilter,
    after: Option<TaskId>,
    limit: u32,
) -> Vec<Task> {
    must(world.backend.store.tasks(TasksQuery { key, filter, after, limit, max_bytes: usize::MAX }).await)
}

/// Every row that the filter lets through, page by page.
async fn enumerate(world: &World, key: RunKey, filter: StatusFilter, limit: u32) -> Vec<Vec<Task>> {
    let mut pages: Vec<Vec<Task>> = Vec::new();
    loop {
        let after = pages.last().and_then(|p| p.last()).map(|t| t.id);
        let next = page(world, key, filter, after, limit).await;
        if next.is_empty() {
            return pages;
        }
        pages.push(next);
    }
}

async fn task(world: &World, key: RunKey, index: u32) -> Task {
    must(world.backend.store.task(key, World::task(key, index)).await).expect("the task is there")
}

pub async fn put_if_absent_never_resets_a_row(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(true, 3).await;
    world.finish(key, 0, success()).await;
    let held = world.claimed(key, 1).await;
    let before = [task(&world, key, 0).await, task(&world, key, 1).await, task(&world, key, 2).await];
    // The same indexes again, with other contents, and one new row among them.
    let rows: Vec<_> = (0..4).zip(World::inputs(9).into_iter().skip(5)).collect();
    world.pass(1_000);
    must(world.backend.store.put_tasks(key, rows, world.now()).await);
    for (index, was) in (0..).zip(before) {
        assert_eq!(task(&world, key, index).await, was, "task {index} was reset");
    }
    assert_eq!(task(&world, key, 3).await.status, TaskStatus::Pending);
    assert_eq!(world.settle(key, &held, success()).await, Settled::Applied, "the claim was lost");
}

pub async fn a_hundred_claims_leave_one_that_can_settle(harness: &dyn Harness) {
    let world = Arc::new(World::new(harness.backend()));
    let key = world.submit(false, 1).await;
    let claim = |_| {
        let world = world.clone();
        tokio::spawn(async move {
            let task = world.task_ref(key, 0).await;
            let claims = vec![(task, ClaimToken::new(&world.entropy))];
            must(world.backend.store.claim(key, claims, 1_000, world.now()).await).remove(0)
        })
    };
    let claims: Vec<_> = (0..100).map(claim).collect();
    let mut held = Vec::new();
    for claim in claims {
        match must(claim.await) {
            Claim::Claimed(task) => held.push(task),
            other => panic!("{other:?}"),
        }
    }
    let settle = |(i, claimed): (usize, ClaimedTask)| {
        let world = world.clone();
        let outcome = if i % 2 == 0 { success() } else { failure(FailureClass::Blocked) };
        tokio::spawn(async move { world.settle(key, &claimed, outcome).await })
    };
    let settles: Vec<_> = held.into_iter().enumerate().map(settle).collect();
    let mut applied = 0;
    for settle in settles {
        applied += u32::from(must(settle.await) == Settled::Applied);
    }
    assert_eq!(applied, 1, "one winner");
    let counts = world.view(key).await.latest_run().stats.counts;
    assert_eq!(counts.completed(), 1, "one count");
    assert_eq!(counts.successful == 1, task(&world, key, 0).await.status == TaskStatus::Successful);
}

pub async fn a_hundred_settles_of_one_claim_count_once(harness: &dyn Harness) {
    let world = Arc::new(World::new(harness.backend()));
    let key = world.submit(false, 1).await;
    let claimed = world.claimed(key, 0).await;
    let settle = |_| {
        let (world, claimed) = (world.clone(), claimed.clone());
        tokio::spawn(async move { world.settle(key, &claimed, success()).await })
    };
    let settles: Vec<_> = (0..100).map(settle).collect();
    let mut answers = Vec::new();
    for settle in settles {
        answers.push(must(settle.await));
    }
    assert_eq!(answers.iter().filter(|a| **a == Settled::Applied).count(), 1);
    assert_eq!(answers.iter().filter(|a| **a == Settled::Already).count(), 99);
    assert_eq!(world.view(key).await.latest_run().stats.counts.completed(), 1);
}

pub async fn a_settle_repeated_after_a_lost_answer_counts_once(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 3).await;
    let outcomes = [
        success(),
        failure(FailureClass::Timeout),
        Outcome::Retry { problem: problem(), not_before: Timestamp(world.now().0 + 9) },
    ];
    for (index, outcome) in (0..).zip(outcomes) {
        let claimed = world.claimed(key, index).await;
        assert_eq!(world.settle(key, &claimed, outcome.clone()).await, Settled::Applied);
        let before = task(&world, key, index).await;
        assert_eq!(world.settle(key, &claimed, outcome).await, Settled::Already);
        assert_eq!(task(&world, key, index).await, before);
    }
    assert_eq!(world.view(key).await.latest_run().stats.counts.completed(), 2);
    let attempts = must(world.backend.store.attempts(key, World::task(key, 2)).await);
    assert_eq!(attempts.map(|a| a.len()), Some(1));
}

/// The process may die between any two steps of a settle: the row and its count are one write.
pub async fn a_settle_that_is_broken_off_is_counted_or_did_not_happen(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, POLLS_MAX).await;
    let mut held = Vec::new();
    for index in 0..POLLS_MAX {
        let claimed = world.claimed(key, index).await;
        broken_off(world.settle(key, &claimed, success()), index + 1).await;
        held.push(claimed);
    }
    let found = tally(&world, key).await;
    assert!(drift(&found.rows, &found.counters).is_zero(), "a row without its count: {found:?}");
    for claimed in held {
        // Repeated after the answer was lost.
        assert_ne!(world.settle(key, &claimed, success()).await, Settled::Lost);
    }
    assert_eq!(world.view(key).await.latest_run().stats.counts.successful, POLLS_MAX);
}

pub async fn a_superseded_claim_cannot_settle(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 1).await;
    let late = world.claimed(key, 0).await;
    let winner = world.claimed(key, 0).await;
    assert_eq!(world.settle(key, &late, success()).await, Settled::Lost);
    assert_eq!(world.settle(key, &late, Outcome::Release).await, Settled::Lost);
    assert_eq!(world.settle(key, &winner, failure(FailureClass::Other)).await, Settled::Applied);
    assert_eq!(world.settle(key, &late, success()).await, Settled::Lost);
    assert_eq!(task(&world, key, 0).await.status, TaskStatus::Failed);
    assert_eq!(world.view(key).await.latest_run().stats.counts.completed(), 1);
}

pub async fn a_terminal_task_cannot_be_claimed(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 2).await;
    world.finish(key, 0, success()).await;
    world.finish(key, 1, failure(FailureClass::BadTarget)).await;
    for index in 0..2 {
        let before = task(&world, key, index).await;
        world.pass(10);
        assert_eq!(world.claim(key, index).await, Claim::Terminal);
        assert_eq!(task(&world, key, index).await, before);
    }
}

pub async fn a_retry_waits_and_keeps_its_history(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 1).await;
    let started = world.now();
    let first = world.claimed(key, 0).await;
    world.pass(100);
    let due = Timestamp(world.now().0 + 5_000);
    let retry = Outcome::Retry { problem: problem(), not_before: due };
    assert_eq!(world.settle(key, &first, retry).await, Settled::Applied);
    assert_eq!(world.claim(key, 0).await, Claim::Early(due));
    world.pass(5_000);
    let second = world.claimed(key, 0).await;
    assert_eq!((first.attempt, second.attempt), (1, 2));
    world.pass(7);
    assert_eq!(world.settle(key, &second, success()).await, Settled::Applied);
    let attempts = must(world.backend.store.attempts(key, second.task).await).expect("a known task");
    assert_eq!(attempts.iter().map(|a| a.number).collect::<Vec<_>>(), [1, 2]);
    assert_eq!((attempts[0].started, attempts[0].ended), (started, Timestamp(started.0 + 100)));
    assert_eq!(attempts[0].error, Some(problem()));
    assert_eq!(attempts[1].error, None);
    assert_eq!(attempts[1].ended, world.now());
}

pub async fn a_release_burns_no_attempt(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 1).await;
    for _ in 0..3 {
        let claimed = world.claimed(key, 0).await;
        assert_eq!(claimed.attempt, 1);
        assert_eq!(world.settle(key, &claimed, Outcome::Release).await, Settled::Applied);
        assert_eq!(task(&world, key, 0).await.status, TaskStatus::Pending);
    }
    let attempts = must(world.backend.store.attempts(key, World::task(key, 0)).await);
    assert_eq!(attempts, Some(Vec::new()));
}

pub async fn too_many_claims_exhaust_a_task(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 1).await;
    for _ in 0..CLAIMS_MAX {
        world.claimed(key, 0).await;
    }
    let Claim::Exhausted(last) = world.claim(key, 0).await else { panic!("claimed once too often") };
    assert_eq!(world.settle(key, &last, failure(FailureClass::Other)).await, Settled::Applied);
}

pub async fn claims_that_reach_an_end_exhaust_nothing(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 1).await;
    for n in 0..CLAIMS_MAX + 5 {
        let claimed = world.claimed(key, 0).await;
        let retry = Outcome::Retry { problem: problem(), not_before: world.now() };
        let outcome = if n % 2 == 0 { retry } else { Outcome::Release };
        assert_eq!(world.settle(key, &claimed, outcome).await, Settled::Applied);
    }
}

pub async fn tasks_of_a_stopped_run_cannot_be_claimed_but_still_settle(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 3).await;
    let held = world.claimed(key, 0).await;
    must(world.backend.store.apply(key.job, Command::Stop, world.now()).await);
    assert_eq!(world.claim(key, 1).await, Claim::Gone);
    assert_eq!(world.settle(key, &held, success()).await, Settled::Applied);
    let stats = world.view(key).await.latest_run().stats;
    assert_eq!((stats.total, stats.counts.completed()), (3, 1));
}

pub async fn foreign_and_unknown_tasks_are_gone(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let (mine, other) = (world.submit(false, 1).await, world.submit(false, 1).await);
    assert_eq!(world.claim(mine, 7).await, Claim::Gone, "no such index");
    let foreign = world.task_ref(other, 0).await;
    let claims = vec![(foreign, ClaimToken::new(&world.entropy))];
    let answer = must(world.backend.store.claim(mine, claims, CLAIMS_MAX, world.now()).await);
    assert_eq!(answer, [Claim::Gone], "the id of another run's task");
    assert_eq!(must(world.backend.store.task(mine, foreign.task).await), None);
    assert_eq!(must(world.backend.store.attempts(mine, foreign.task).await), None);
    let nowhere = RunKey { job: mine.job, run: RunId::new(world.now(), &world.entropy) };
    assert_eq!(world.claim(nowhere, 0).await, Claim::Gone);
}

pub async fn one_lost_settle_does_not_spoil_its_group(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 5).await;
    let mut settles = Vec::new();
    for index in 0..5 {
        let claimed = world.claimed(key, index).await;
        if index == 2 {
            world.claimed(key, index).await;
        }
        settles.push(Settle::new(&claimed, success()));
    }
    let group = SettleGroup { key, worker: world.worker, settles };
    let answers = must(world.backend.store.settle(group, world.now()).await);
    let expected = [Settled::Applied, Settled::Applied, Settled::Lost, Settled::Applied, Settled::Applied];
    assert_eq!(answers, expected);
    assert_eq!(world.view(key).await.latest_run().stats.counts.successful, 4);
}

pub async fn failures_are_counted_by_class(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 14).await;
    for (index, class) in (0..).zip(FailureClass::ALL.into_iter().chain(FailureClass::ALL)) {
        world.finish(key, index, failure(class)).await;
    }
    let counts = world.view(key).await.latest_run().stats.counts;
    assert_eq!((counts.successful, counts.failed), (0, [2; 7]));
    assert_eq!(task(&world, key, 0).await.error, Some(problem()));
}

pub async fn pages_are_dense_ordered_and_complete(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let (before, key, after) =
        (world.submit(false, 3).await, world.submit(false, 25).await, world.submit(false, 3).await);
    assert!(before.run != key.run && after.run != key.run, "neighbours must not leak in");
    let pages = enumerate(&world, key, StatusFilter::All, 10).await;
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [10, 10, 5]);
    let ids: Vec<_> = pages.into_iter().flatten().map(|t| t.id).collect();
    assert_eq!(ids, (0..25).map(|i| World::task(key, i)).collect::<Vec<_>>());
}

pub async fn filtered_pages_are_dense(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 40).await;
    for index in (0..40).step_by(4) {
        world.finish(key, index, failure(FailureClass::Other)).await;
        world.finish(key, index + 1, success()).await;
        world.claimed(key, index + 2).await;
    }
    let lengths = |pages: Vec<Vec<Task>>| pages.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(lengths(enumerate(&world, key, StatusFilter::Failed, 4).await), [4, 4, 2]);
    assert_eq!(lengths(enumerate(&world, key, StatusFilter::Successful, 10).await), [10]);
    assert_eq!(lengths(enumerate(&world, key, StatusFilter::Unfinished, 15).await), [15, 5]);
}

pub async fn a_filtered_page_looks_at_no_more_than_it_may(harness: &dyn Harness) {
    const LOOK: u32 = 10;
    let world = World::new(harness.backend());
    let key = world.submit(false, 45).await;
    for index in [3, 4, 31] {
        world.finish(key, index, success()).await;
    }
    let filter = StatusFilter::Successful;
    let mut query = TasksQuery { key, filter, after: None, limit: 9, max_bytes: usize::MAX };
    let (mut found, mut pages) = (Vec::new(), 0);
    loop {
        let page = must(world.backend.store.scan_tasks(query, LOOK, Reader::Caller).await);
        pages += 1;
        found.extend(page.rows.iter().map(|task| task.id.index()));
        let Some(next) = page.next else { break };
        let from = query.after.map_or(0, |task| task.index() + 1);
        assert!((from..from + LOOK).contains(&next.index()), "it looked from {from} to {}", next.index());
        query.after = Some(next);
    }
    assert_eq!(found, [3, 4, 31], "each once");
    assert!(pages >= 5, "45 rows in {pages} pages");
    query = TasksQuery { after: None, limit: 1, ..query };
    let full = must(world.backend.store.scan_tasks(query, LOOK, Reader::Caller).await);
    assert_eq!(
        (full.rows.len(), full.next),
        (1, Some(World::task(key, 3))),
        "a full page stops at its last row"
    );
}

/// What matches while it is listed is listed once; what changes meanwhile, once at most.
pub async fn a_filtered_list_has_each_row_once_while_they_change(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 40).await;
    let filter = StatusFilter::Unfinished;
    let mut query = TasksQuery { key, filter, after: None, limit: 4, max_bytes: usize::MAX };
    let (mut found, mut settled) = (Vec::new(), Vec::new());
    loop {
        let page = must(world.backend.store.scan_tasks(query, 10, Reader::Caller).await);
        found.extend(page.rows.iter().map(|task| task.id.index()));
        let Some(next) = page.next else { break };
        query.after = Some(next);
        // One that was listed, and one that will not be.
        for index in [next.index(), next.index() + 2] {
            if index < 40 {
                world.finish(key, index, success()).await;
                settled.push(index);
            }
        }
    }
    assert!(found.is_sorted_by(|a, b| a < b), "one came twice: {found:?}");
    for index in (0..40).filter(|index| !settled.contains(index)) {
        assert!(found.contains(&index), "{index} is missing in {found:?}");
    }
    assert!(settled.len() > 10 && found.len() < 40, "nothing changed meanwhile");
}

pub async fn pages_are_stable_under_concurrent_writes(harness: &dyn Harness) {
    let world = Arc::new(World::new(harness.backend()));
    let key = world.submit(true, 60).await;
    let writer = {
        let world = world.clone();
        tokio::spawn(async move {
            for index in 0..60 {
                world.finish(key, index, success()).await;
                if index % 6 == 0 {
                    let store = &world.backend.store;
                    must(store.add_tasks(key.job, World::inputs(1), false, 1_000, None, world.now()).await);
                }
            }
        })
    };
    let mut rounds = 0;
    while !writer.is_finished() || rounds == 0 {
        let seen: Vec<_> =
            enumerate(&world, key, StatusFilter::All, 7).await.into_iter().flatten().map(|t| t.id).collect();
        let expected: Vec<_> = (0..).take(seen.len()).map(|i| World::task(key, i)).collect();
        assert_eq!(seen, expected, "a row was skipped, repeated or out of order");
        assert!(seen.len() >= 60, "a row that was there before the first page is missing");
        rounds += 1;
    }
    must(writer.await);
}

pub async fn stats_never_pass_the_total_while_workers_race(harness: &dyn Harness) {
    let world = Arc::new(World::new(harness.backend()));
    let key = world.submit(false, 40).await;
    // Four workers at the same rows at once, as after four deliveries of every message.
    let race = |_| {
        let world = world.clone();
        tokio::spawn(async move {
            let worker = WorkerId::new(world.now(), &world.entropy);
            for index in 0..40 {
                let Claim::Claimed(claimed) = world.claim(key, index).await else { continue };
                let settles = vec![Settle::new(&claimed, success())];
                must(world.backend.store.settle(SettleGroup { key, worker, settles }, world.now()).await);
            }
        })
    };
    let racers: Vec<_> = (0..4).map(race).collect();
    while !racers.iter().all(|r| r.is_finished()) {
        let stats = world.view(key).await.latest_run().stats;
        assert!(stats.counts.completed() <= stats.total, "{stats:?}");
        tokio::task::yield_now().await;
    }
    for racer in racers {
        must(racer.await);
    }
    assert_eq!(world.view(key).await.latest_run().stats.counts.completed(), 40);
}

pub async fn settles_survive_a_crash(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 10).await;
    for index in 0..6 {
        world.finish(key, index, success()).await;
    }
    let held = world.claimed(key, 6).await;
    let after = harness.crash().await;
    let revived = World::new(after.backend());
    let stats = must(revived.backend.store.run(key.job, key.run).await).expect("the run is there").stats;
    assert_eq!(stats.counts.completed(), 6);
    let new = revived.claimed(key, 6).await;
    assert_eq!(revived.settle(key, &held, success()).await, Settled::Lost, "the dead worker's claim");
    assert_eq!(revived.settle(key, &new, success()).await, Settled::Applied);
}
