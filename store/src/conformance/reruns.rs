//! Rules of runs that replay an earlier one (SPEC 6.19).

use super::ingest::{append, state};
use super::proof::tally;
use super::world::{CLAIMS_MAX, failure, must, success};
use super::{Harness, World};
use crate::port::{
    Appended, Chunk, Claim, Error, RunKey, RunsQuery, Settle, SettleGroup, Settled, StartRun, StatusFilter,
    TasksQuery,
};
use conveyor_domain::ingest::list::Position;
use conveyor_domain::job::rerun::inherited_counts;
use conveyor_domain::repair::proof::drift;
use conveyor_domain::{
    ClaimToken, Command, FailureClass, IngestEvent, NewRun, NewTasks, Outcome, Params, QueueName, Refusal,
    Replay, ReplayedTask, RunId, RunStatus, Selection, Task, TaskId, TaskRef, TaskStatus, Trigger, limits,
};
use futures::future::join_all;
use std::time::Duration;

const TASKS: u32 = 6;

async fn tasks(world: &World, key: RunKey) -> Vec<Task> {
    let query = TasksQuery { key, filter: StatusFilter::All, after: None, limit: 100, max_bytes: usize::MAX };
    must(world.backend.store.tasks(query).await)
}

fn failed_only() -> Selection {
    Selection { status: vec![TaskStatus::Failed], ..Selection::default() }
}

fn new_run(world: &World, earlier: RunKey, tasks: NewTasks) -> NewRun {
    NewRun {
        id: RunId::new(world.now(), &world.entropy),
        after: earlier.run,
        trigger: Trigger::Manual,
        fire: None,
        rerun_of: Some(earlier.run),
        overrides: Params::from([("js_render".to_owned(), "true".to_owned())]),
        sources: vec![earlier.run],
        tasks,
    }
}

/// A rerun whose tasks are written with it.
async fn written(world: &World, earlier: RunKey, selection: Selection) -> StartRun {
    let replay = Replay { run: earlier.run, selection };
    let tasks: Vec<ReplayedTask> =
        tasks(world, earlier).await.into_iter().map(|task| replay.replayed(task)).collect();
    let total = u32::try_from(tasks.len()).expect("few");
    let of = NewTasks::Written { total, next_index: TASKS, inherited: inherited_counts(&tasks) };
    StartRun { job: earlier.job, run: new_run(world, earlier, of), tasks, log: None, once: None }
}

/// A run that completed: the first two tasks failed, the others did not.
async fn completed(world: &World) -> RunKey {
    let key = world.submit(false, TASKS).await;
    for index in 0..TASKS {
        let outcome = if index < 2 { failure(FailureClass::Blocked) } else { success() };
        world.finish(key, index, outcome).await;
    }
    let view = must(world.backend.store.apply(key.job, Command::Drained, world.now()).await);
    assert_eq!(view.latest_run().run.status, RunStatus::Completed);
    key
}

async fn finish(world: &World, key: RunKey, seed: RunId, index: u32, outcome: Outcome) {
    let shards = world.view(key).await.job.spec.task_shard_count;
    let task = TaskRef { task: TaskId::of(seed, index), task_shard_count: shards };
    let claims = vec![(task, ClaimToken::new(&world.entropy))];
    let claim = must(world.backend.store.claim(key, claims, CLAIMS_MAX, world.now()).await).remove(0);
    let Claim::Claimed(claimed) = claim else { panic!("expected a claim, got {claim:?}") };
    let settles = vec![Settle::new(&claimed, outcome)];
    let group = SettleGroup { key, worker: world.worker, settles };
    assert_eq!(must(world.backend.store.settle(group, world.now()).await), [Settled::Applied]);
}

async fn queued(world: &World, run: RunId) -> usize {
    let visibility = Duration::from_secs(60);
    let mut found = 0;
    loop {
        let queue = QueueName::Run(run);
        let page = must(world.backend.queue.receive(queue, 10, visibility, world.now()).await);
        if page.is_empty() {
            return found;
        }
        found += page.len();
    }
}

pub async fn a_full_rerun_has_the_same_ids_and_begins_anew(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let first = completed(&world).await;
    world.pass(1_000);
    let mut start = written(&world, first, Selection::default()).await;
    // As much as a caller may say, and what sealing adds.
    let longest = "x".repeat(limits::PARAMS_MAX_BYTES + 16 * limits::KIB);
    start.run.overrides = Params::from([("js_instructions".to_owned(), longest)]);
    let key = RunKey { job: first.job, run: start.run.id };
    let view = must(world.backend.store.start_run(start, world.now()).await);
    assert_eq!((view.latest_run().run.sequence, view.latest_run().run.status), (2, RunStatus::Running));
    assert_eq!((view.latest_run().stats.total, view.latest_run().stats.counts.completed()), (TASKS, 0));
    let crashed = harness.crash().await;
    let world = world.on(crashed.backend());
    assert_eq!(world.view(key).await, view, "acknowledged means durable");
    assert_eq!(view.latest_run().run.doc.overrides.len(), 1);
    let ids = |tasks: &[Task]| tasks.iter().map(|task| task.id).collect::<Vec<_>>();
    let (before, after) = (tasks(&world, first).await, tasks(&world, key).await);
    assert_eq!(ids(&before), ids(&after));
    assert!(after.iter().all(|task| task.status == TaskStatus::Pending && task.result.is_none()));
    assert!(before.iter().all(|task| task.status.is_terminal()), "the earlier run stays as it was");
    assert_eq!(queued(&world, key.run).await, TASKS as usize);
    for index in 0..TASKS {
        finish(&world, key, first.run, index, success()).await;
    }
    let view = must(world.backend.store.apply(key.job, Command::Drained, world.now()).await);
    assert_eq!((view.latest_run().run.id, view.latest_run().run.status), (key.run, RunStatus::Completed));
    let earlier = must(world.backend.store.run(first.job, first.run).await).expect("it is there");
    assert_eq!((earlier.stats.counts.successful, earlier.stats.counts.failed_total()), (4, 2));
    assert_eq!(must(world.backend.store.runs(RunsQuery::newest(first.job, 9)).await).rows.len(), 2);
}

pub async fn runs_page_newest_first(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let mut latest = completed(&world).await;
    for _ in 0..3 {
        world.pass(1_000);
        let start = written(&world, latest, Selection::default()).await;
        latest.run = start.run.id;
        must(world.backend.store.start_run(start, world.now()).await);
        must(world.backend.store.apply(latest.job, Command::Stop, world.now()).await);
    }
    for (limit, look, expected) in [(3, 9, vec![3, 1]), (9, 2, vec![2, 2]), (9, 9, vec![4])] {
        let mut query = RunsQuery { job: latest.job, before: None, limit, look };
        let (mut seen, mut lengths) = (Vec::new(), Vec::new());
        loop {
            let page = must(world.backend.store.runs(query).await);
            lengths.push(page.rows.len());
            seen.extend(page.rows.iter().map(|view| view.run.sequence));
            match page.next {
                Some(_) => query.before = page.next,
                None => break,
            }
        }
        // A backend may find out only with another page that the last was the last.
        lengths.retain(|length| *length > 0);
        assert_eq!((seen, lengths), (vec![4, 3, 2, 1], expected), "limit {limit}, look {look}");
    }
}

pub async fn a_partial_rerun_hands_down_what_is_not_done_again(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let first = completed(&world).await;
    world.pass(1_000);
    let start = written(&world, first, failed_only()).await;
    let key = RunKey { job: first.job, run: start.run.id };
    let view = must(world.backend.store.start_run(start, world.now()).await);
    assert_eq!((view.latest_run().stats.total, view.latest_run().stats.counts.successful), (TASKS, 4));
    assert_eq!(queued(&world, key.run).await, 2, "only what is done again");
    let rows = tasks(&world, key).await;
    let handed_down: Vec<&Task> = rows.iter().filter(|task| task.inherited.is_some()).collect();
    assert_eq!(handed_down.len(), 4);
    assert!(handed_down.iter().all(|task| task.inherited.is_some_and(|from| from.run == first.run)));
    assert!(handed_down.iter().all(|task| task.result.is_some() && task.updated == world.now()));
    assert!(drift_of(&world, key).await, "what is handed down counts");
    finish(&world, key, first.run, 0, success()).await;
    finish(&world, key, first.run, 1, failure(FailureClass::Timeout)).await;
    assert!(drift_of(&world, key).await);
    let view = must(world.backend.store.apply(key.job, Command::Drained, world.now()).await);
    assert_eq!(view.latest_run().run.status, RunStatus::Completed);
    assert_eq!(
        (view.latest_run().stats.counts.successful, view.latest_run().stats.counts.failed_total()),
        (5, 1)
    );
    // Through another rerun it still names the run that did it.
    let again = written(&world, key, failed_only()).await;
    let third = RunKey { job: first.job, run: again.run.id };
    must(world.backend.store.start_run(again, world.now()).await);
    let owners: Vec<Option<RunId>> =
        tasks(&world, third).await.iter().map(|task| task.inherited.map(|from| from.run)).collect();
    let (one, two) = (Some(first.run), Some(key.run));
    assert_eq!(owners, [two, None, one, one, one, one]);
    let refused = world.backend.store.delete_run(key, world.now()).await;
    assert_eq!(refused.map(drop), Err(Error::Refused(Refusal::RunHasDescendants)));
}

async fn drift_of(world: &World, key: RunKey) -> bool {
    let found = tally(world, key).await;
    found.rows.all() == TASKS && drift(&found.rows, &found.counters).is_zero()
}

pub async fn of_many_who_begin_a_run_at_once_one_does(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let first = completed(&world).await;
    let mut starts = Vec::new();
    for _ in 0..8 {
        starts.push(written(&world, first, Selection::default()).await);
    }
    let ids: Vec<RunId> = starts.iter().map(|start| start.run.id).collect();
    let begun = starts.into_iter().map(|start| world.backend.store.start_run(start, world.now()));
    let begun = join_all(begun).await;
    let winners: Vec<RunId> =
        begun.iter().zip(ids).filter(|(begun, _)| begun.is_ok()).map(|(_, id)| id).collect();
    assert_eq!(winners.len(), 1, "{begun:?}");
    for lost in begun.into_iter().filter_map(Result::err) {
        assert!(
            matches!(lost, Error::Refused(Refusal::RunNotTerminal | Refusal::AnotherRunBegan)),
            "{lost:?}"
        );
    }
    assert_eq!(world.view(first).await.latest_run().run.id, winners[0]);
    assert_eq!(must(world.backend.store.runs(RunsQuery::newest(first.job, 9)).await).rows.len(), 2);
}

pub async fn a_run_is_not_begun_while_another_lives(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, TASKS).await;
    let start = written(&world, key, Selection::default()).await;
    let refused = world.backend.store.start_run(start.clone(), world.now()).await;
    assert_eq!(refused.map(drop), Err(Error::Refused(Refusal::RunNotTerminal)));
    must(world.backend.store.apply(key.job, Command::Delete, world.now()).await);
    let refused = world.backend.store.start_run(start, world.now()).await;
    assert_eq!(refused.map(drop), Err(Error::Refused(Refusal::JobDeleted)));
    assert_eq!(must(world.backend.store.runs(RunsQuery::newest(key.job, 9)).await).rows.len(), 1);
}

/// All tasks of the earlier run, as the first chunk of this one.
async fn commit(world: &World, key: RunKey, fixed: Vec<ReplayedTask>) {
    let now = state(world, key).await;
    let event = IngestEvent::ChunkCommitted {
        chunk: 0,
        rows: TASKS,
        rejected: 0,
        next: Position { index: TASKS, ..now.next },
        report: None,
        inherited: inherited_counts(&fixed),
        unknown: Default::default(),
    };
    let chunk = Chunk { rows: Vec::new(), replayed: fixed, entry: must(now.entry(event)) };
    assert_eq!(must(world.backend.store.commit_chunk(key, chunk, world.now()).await), Appended::Done);
}

async fn end_of_list(world: &World, key: RunKey) {
    assert_eq!(append(world, key, IngestEvent::TotalSet { total: TASKS }).await, Appended::Done);
    assert_eq!(append(world, key, IngestEvent::Latched).await, Appended::Done);
}

/// One ingester writes rows and is gone before it counts them; meanwhile a task of the earlier run, which was in flight
/// when that run was stopped, ends after all.
pub async fn an_ingested_rerun_counts_what_is_there(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let first = world.submit(false, TASKS).await;
    world.finish(first, 0, failure(FailureClass::Blocked)).await;
    world.finish(first, 1, success()).await;
    let late = world.claimed(first, 2).await;
    must(world.backend.store.apply(first.job, Command::Stop, world.now()).await);
    let replay = Replay { run: first.run, selection: failed_only() };
    let log = Some(IngestEvent::Replaying { replay: replay.clone() });
    let run = new_run(&world, first, NewTasks::Ingested { expected: None });
    let key = RunKey { job: first.job, run: run.id };
    let start = StartRun { job: first.job, run, tasks: Vec::new(), log, once: None };
    let view = must(world.backend.store.start_run(start, world.now()).await);
    assert!(view.latest_run().run.is_ingesting() && view.latest_run().stats.total == 0);
    let read = async || -> Vec<ReplayedTask> {
        tasks(&world, first).await.into_iter().map(|task| replay.replayed(task)).collect()
    };
    must(world.backend.store.fix_replayed(key, read().await, world.now()).await);
    assert_eq!(world.settle(first, &late, success()).await, Settled::Applied);
    // Another one goes on, and finds the earlier run further than it was.
    let fixed = must(world.backend.store.fix_replayed(key, read().await, world.now()).await);
    commit(&world, key, fixed).await;
    end_of_list(&world, key).await;
    assert!(drift_of(&world, key).await, "{:?}", tally(&world, key).await);
    assert_eq!(queued(&world, key.run).await, 1);
    finish(&world, key, first.run, 0, success()).await;
    let view = must(world.backend.store.apply(key.job, Command::Drained, world.now()).await);
    assert_eq!(view.latest_run().run.status, RunStatus::Completed);
    assert_eq!(view.latest_run().stats.counts.completed(), TASKS);
}

async fn delete_run(world: &World, key: RunKey) -> Result<(), Error> {
    world.backend.store.delete_run(key, world.now()).await.map(drop)
}

/// A full rerun points to nothing of the earlier run, but is made of it.
pub async fn a_run_that_is_read_stays_until_it_was(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let first = completed(&world).await;
    let replay = Replay { run: first.run, selection: Selection::default() };
    let run = NewRun { sources: Vec::new(), ..new_run(&world, first, NewTasks::Ingested { expected: None }) };
    let key = RunKey { job: first.job, run: run.id };
    let log = Some(IngestEvent::Replaying { replay: replay.clone() });
    let start = StartRun { job: first.job, run, tasks: Vec::new(), log, once: None };
    must(world.backend.store.start_run(start, world.now()).await);
    assert_eq!(delete_run(&world, first).await, Err(Error::Refused(Refusal::RunHasDescendants)));
    let replayed = tasks(&world, first).await.into_iter().map(|task| replay.replayed(task)).collect();
    let fixed = must(world.backend.store.fix_replayed(key, replayed, world.now()).await);
    commit(&world, key, fixed).await;
    assert_eq!(delete_run(&world, first).await, Err(Error::Refused(Refusal::RunHasDescendants)));
    end_of_list(&world, key).await;
    assert_eq!(delete_run(&world, first).await, Ok(()), "all of it was read");
}

/// A rerun of all tasks by a filter names its source before anybody has read which rows it inherits.
pub async fn a_run_that_nothing_was_inherited_from_can_go(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let first = completed(&world).await;
    let every =
        Selection { status: vec![TaskStatus::Failed, TaskStatus::Successful], ..Selection::default() };
    let replay = Replay { run: first.run, selection: every };
    let run = new_run(&world, first, NewTasks::Ingested { expected: None });
    let key = RunKey { job: first.job, run: run.id };
    let log = Some(IngestEvent::Replaying { replay: replay.clone() });
    let start = StartRun { job: first.job, run, tasks: Vec::new(), log, once: None };
    must(world.backend.store.start_run(start, world.now()).await);
    let replayed = tasks(&world, first).await.into_iter().map(|task| replay.replayed(task)).collect();
    let fixed = must(world.backend.store.fix_replayed(key, replayed, world.now()).await);
    commit(&world, key, fixed).await;
    assert_eq!(delete_run(&world, first).await, Err(Error::Refused(Refusal::RunHasDescendants)));
    end_of_list(&world, key).await;
    assert_eq!(delete_run(&world, first).await, Ok(()), "no result is kept in it");
}

/// Its rows were read before, and some of them may have been gone then.
pub async fn a_run_that_was_deleted_meanwhile_is_not_replayed(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let first = completed(&world).await;
    for selection in [failed_only(), Selection::default()] {
        let start = written(&world, first, selection).await;
        assert_eq!(delete_run(&world, first).await, Ok(()));
        let refused = world.backend.store.start_run(start, world.now()).await;
        assert_eq!(refused.map(drop), Err(Error::Refused(Refusal::NoPriorRun)));
    }
    // A run that is not the latest: the one behind it was deleted.
    let first = completed(&world).await;
    let start = written(&world, first, Selection::default()).await;
    let second = RunKey { job: first.job, run: start.run.id };
    must(world.backend.store.start_run(start, world.now()).await);
    assert_eq!(delete_run(&world, second).await, Ok(()));
    let mut late = written(&world, first, failed_only()).await;
    late.run.after = second.run;
    assert_eq!(delete_run(&world, first).await, Ok(()));
    let refused = world.backend.store.start_run(late, world.now()).await;
    assert_eq!(refused.map(drop), Err(Error::Refused(Refusal::NoPriorRun)));
    let old = completed(&world).await;
    let start = written(&world, old, failed_only()).await;
    world.pass(31 * 24 * 3_600_000);
    let refused = world.backend.store.start_run(start, world.now()).await;
    assert_eq!(refused.map(drop), Err(Error::Refused(Refusal::NoPriorRun)));
}
