//! A run that is made of an earlier one (SPEC 6.19).

use crate::world::{World, lines, small_chunks};
use conveyor_domain::{
    ClaimToken, Command, FailureClass, Format, IngestEvent, ListSpec, NewRun, NewTasks, OnInvalidRows,
    Outcome, Params, Problem, Replay, ResultRef, RunId, RunStatus, Selection, TaskId, TaskRef, TaskStatus,
    Trigger, WorkerId,
};
use conveyor_ingest::End;
use conveyor_store::port::{Claim, RunKey, Settle, SettleGroup, StartRun};
use std::collections::BTreeSet;
use tokio_util::sync::CancellationToken;

/// A list with bad rows in between, all of whose tasks are done: every third failed.
async fn earlier(world: &World) -> RunKey {
    let text: String = lines(100).lines().flat_map(|line| [line, "\n", "not a url\n"]).collect();
    let key = world.accept(text.as_bytes(), ListSpec::Lines, OnInvalidRows::Skip).await;
    assert_eq!(world.ingest(key).await, End::Over);
    let worker = WorkerId::new(world.now(), &world.entropy);
    for task in world.tasks(key).await {
        let task_ref = TaskRef { task: task.id, task_shard_count: 1 };
        let claims = vec![(task_ref, ClaimToken::new(&world.entropy))];
        let claim = world.backend.store.claim(key, claims, 20, world.now()).await.unwrap().remove(0);
        let Claim::Claimed(claimed) = claim else { panic!("{claim:?}") };
        let outcome = match task.id.index() % 3 {
            0 => Outcome::Failed { class: FailureClass::Blocked, problem: Problem::new(403, "x", "X") },
            _ => Outcome::Successful(ResultRef {
                object: Some(format!("jobs/x/{}", task.id)),
                length: 1,
                ..ResultRef::empty(Format::Html, 200)
            }),
        };
        let settles = vec![Settle::new(&claimed, outcome)];
        world.backend.store.settle(SettleGroup { key, worker, settles }, world.now()).await.unwrap();
    }
    let view = world.backend.store.apply(key.job, Command::Drained, world.now()).await.unwrap();
    assert_eq!(view.latest_run().run.status, RunStatus::Completed);
    key
}

async fn begin(world: &World, earlier: RunKey, selection: Selection) -> RunKey {
    let run = NewRun {
        id: RunId::new(world.now(), &world.entropy),
        after: earlier.run,
        trigger: Trigger::Manual,
        fire: None,
        rerun_of: Some(earlier.run),
        overrides: Params::new(),
        sources: vec![earlier.run],
        tasks: NewTasks::Ingested { expected: None },
    };
    let key = RunKey { job: earlier.job, run: run.id };
    let log = Some(IngestEvent::Replaying { replay: Replay { run: earlier.run, selection } });
    let start = StartRun { job: earlier.job, run, tasks: Vec::new(), log, once: None };
    world.backend.store.start_run(start, world.now()).await.unwrap();
    key
}

fn failed_only() -> Selection {
    Selection { status: vec![TaskStatus::Failed], ..Selection::default() }
}

async fn is_whole(world: &World, first: RunKey, key: RunKey) {
    let (before, after) = (world.tasks(first).await, world.tasks(key).await);
    let ids = |tasks: &[conveyor_domain::Task]| tasks.iter().map(|task| task.id).collect::<Vec<TaskId>>();
    assert_eq!(ids(&before), ids(&after), "the same tasks at the same places");
    let failed: BTreeSet<u32> =
        before.iter().filter(|task| task.status == TaskStatus::Failed).map(|task| task.id.index()).collect();
    let pending: BTreeSet<u32> =
        after.iter().filter(|task| task.status == TaskStatus::Pending).map(|task| task.id.index()).collect();
    assert_eq!(pending, failed);
    assert_eq!(world.queued(key).await, failed);
    let stats = world.view(key).await.latest_run().stats;
    assert_eq!(stats.total as usize, before.len());
    assert_eq!(stats.counts.completed() as usize, before.len() - failed.len());
}

#[tokio::test]
async fn an_earlier_run_is_replayed_with_its_gaps() {
    let world = World::new();
    let first = earlier(&world).await;
    let key = begin(&world, first, failed_only()).await;
    assert_eq!(world.ingest(key).await, End::Over);
    is_whole(&world, first, key).await;
    let run = world.view(key).await.latest_run().run.clone();
    assert!(run.latched && run.status == RunStatus::Running);
}

#[tokio::test]
async fn a_replay_that_is_broken_off_anywhere_is_gone_on_with() {
    for polls in (0..60).step_by(4) {
        let world = World::new();
        let first = earlier(&world).await;
        let key = begin(&world, first, failed_only()).await;
        {
            let (ingester, stop) = (world.ingester(small_chunks()), CancellationToken::new());
            let mut broken = Box::pin(ingester.ingest(key, &stop));
            for _ in 0..polls {
                if futures::poll!(&mut broken).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        // What was on its way when it was dropped may still win a step.
        let mut end = world.ingest(key).await;
        if end == End::Lost {
            end = world.ingest(key).await;
        }
        assert_eq!(end, End::Over, "after {polls} polls");
        is_whole(&world, first, key).await;
    }
}

#[tokio::test]
async fn many_ingesters_at_once_write_one_run() {
    let world = World::new();
    let first = earlier(&world).await;
    let key = begin(&world, first, failed_only()).await;
    let ingesters: Vec<_> = (0..4).map(|_| world.ingester(small_chunks())).collect();
    let stop = CancellationToken::new();
    let all = ingesters.iter().map(|ingester| ingester.ingest(key, &stop));
    futures::future::join_all(all).await;
    assert_eq!(world.ingest(key).await, End::Over);
    is_whole(&world, first, key).await;
}

/// What went by age while it was read must not make a shorter run of it.
#[tokio::test]
async fn a_replay_of_which_rows_may_be_gone_fails_and_says_so() {
    let world = World::new();
    let first = earlier(&world).await;
    let key = begin(&world, first, failed_only()).await;
    world.clock.advance_ms(31 * 24 * 3_600_000);
    assert_eq!(world.ingest(key).await, End::Over);
    let run = world.view(key).await.latest_run().run.clone();
    assert_eq!(run.status, RunStatus::Failed);
    assert_eq!(run.failure.unwrap().reason.as_str(), "source_changed");
}
