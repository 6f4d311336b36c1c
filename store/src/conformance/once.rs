//! Rules of operations that happen once however often they are asked for (SPEC 6.23): what is done and what is answered are
//! one step, and whoever lost its claim does nothing.

use super::world::must;
use super::{Harness, World};
use crate::Error;
use crate::port::{JobView, Once, RunKey, StartRun, Submission};
use conveyor_domain::job::record::Expected;
use conveyor_domain::limits::RUN_TASKS_MAX;
use conveyor_domain::{
    Command, IngestEvent, NewRun, NewTasks, Params, Record, RecordKey, RecordKind, RecordVersion,
    RecordWrite, Replay, RunId, Selection, Trigger,
};
use futures::future::join_all;
use std::sync::Arc;
use std::time::Duration;

const TTL: Duration = Duration::from_secs(3_600);

/// Claims a key, and what an operation under that claim writes.
async fn claim(world: &World, id: &str) -> Once {
    let key = RecordKey::new(RecordKind::Idempotency, world.caller, id);
    let claimed = Record::new(key, RecordVersion::new(&world.entropy), &"claimed");
    must(world.backend.store.write_record(RecordWrite::put(claimed.clone(), Expected::Anything)).await);
    next(world, &claimed)
}

fn next(world: &World, claimed: &Record) -> Once {
    Once {
        key: claimed.key.clone(),
        expected: claimed.version,
        next: RecordVersion::new(&world.entropy),
        expires: world.now().after(TTL),
        answer: Arc::new(document),
    }
}

fn document(view: &JobView) -> String {
    format!("{{\"run\":\"{}\",\"total\":{}}}", view.latest_run().run.id, view.latest_run().stats.total)
}

async fn stored(world: &World, once: &Once) -> Option<Record> {
    must(world.backend.store.record(&once.key).await)
}

/// The record has the answer of this operation, and no other.
async fn is_answered(world: &World, once: &Once, run: RunKey) {
    let record = stored(world, once).await.expect("the answer is there");
    assert_eq!((record.version, record.expires), (once.next, Some(once.expires)));
    assert_eq!(record.doc, document(&world.view(run).await));
}

/// The same claim after somebody else took it.
async fn taken_over(world: &World, once: &Once) -> Record {
    let other = Record::new(once.key.clone(), RecordVersion::new(&world.entropy), &"another");
    let write = RecordWrite::put(other.clone(), Expected::Version(once.expected));
    assert!(must(world.backend.store.write_record(write).await));
    other
}

fn is_lost<T: std::fmt::Debug>(outcome: Result<T, Error>) {
    assert!(matches!(outcome, Err(Error::Conflict(_))), "{outcome:?}");
}

pub async fn a_submit_and_its_answer_are_one_step(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let store = &world.backend.store;
    let once = claim(&world, "a").await;
    let submission = Submission { once: Some(once.clone()), ..world.submission(false, 3) };
    let key = RunKey { job: submission.job.id, run: submission.job.latest_run };
    must(store.submit(submission.clone()).await);
    is_answered(&world, &once, key).await;
    must(store.submit(submission).await);
    is_answered(&world, &once, key).await;

    let stale = claim(&world, "b").await;
    let submission = Submission { once: Some(stale.clone()), ..world.submission(false, 3) };
    let job = submission.job.id;
    let other = taken_over(&world, &stale).await;
    is_lost(store.submit(submission).await);
    assert_eq!(must(store.job(None, job).await), None, "nothing was made");
    assert_eq!(stored(&world, &stale).await, Some(other), "nothing was answered");
}

pub async fn an_accept_and_its_answer_are_one_step(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let store = &world.backend.store;
    let upload = world.upload().await;
    let staged = world.staged("once", b"https://example.com/\n").await;
    must(store.put_staged(upload.id, staged.clone(), None, world.now()).await);

    let stale = claim(&world, "a").await;
    let mut acceptance = world.acceptance(&upload, &staged);
    acceptance.once = Some(stale.clone());
    let other = taken_over(&world, &stale).await;
    is_lost(store.submit(acceptance.clone()).await);
    assert_eq!(must(store.job(None, acceptance.job.id).await), None, "nothing was made");
    assert_eq!(stored(&world, &stale).await, Some(other.clone()));
    let slot = must(store.upload(world.caller, upload.id, world.now()).await);
    assert!(!slot.expect("the upload is there").claimed, "nothing was claimed");

    let once = next(&world, &other);
    let mut acceptance = world.acceptance(&upload, &staged);
    acceptance.once = Some(once.clone());
    let key = RunKey { job: acceptance.job.id, run: acceptance.job.latest_run };
    must(store.submit(acceptance.clone()).await);
    is_answered(&world, &once, key).await;
    must(store.submit(acceptance).await);
    is_answered(&world, &once, key).await;
}

pub async fn an_addition_and_its_answer_are_one_step(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let store = &world.backend.store;
    let key = world.submit(true, 1).await;
    let add = |tasks, once: &Once| {
        let (tasks, once) = (World::inputs(tasks), Some(once.clone()));
        store.add_tasks(key.job, tasks, false, RUN_TASKS_MAX, once, world.now())
    };
    let once = claim(&world, "a").await;
    must(add(2, &once).await);
    is_answered(&world, &once, key).await;
    is_lost(add(2, &once).await);
    assert_eq!(world.view(key).await.latest_run().stats.total, 3, "once is once");
    is_answered(&world, &once, key).await;

    let stale = claim(&world, "b").await;
    taken_over(&world, &stale).await;
    is_lost(add(4, &stale).await);
    is_lost(add(0, &stale).await);
    assert_eq!(world.view(key).await.latest_run().stats.total, 3, "nothing was added");
    let none = claim(&world, "c").await;
    must(add(0, &none).await);
    is_answered(&world, &none, key).await;
}

pub async fn a_new_run_and_its_answer_are_one_step(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let store = &world.backend.store;
    let first = world.submit(false, 2).await;
    must(store.apply(first.job, Command::Stop, world.now()).await);
    let start = |once: &Once| {
        let replay = Replay { run: first.run, selection: Selection::default() };
        let run = NewRun {
            id: RunId::new(world.now(), &world.entropy),
            after: first.run,
            trigger: Trigger::Manual,
            rerun_of: Some(first.run),
            overrides: Params::new(),
            sources: Vec::new(),
            fire: None,
            tasks: NewTasks::Ingested { expected: None },
        };
        let log = Some(IngestEvent::Replaying { replay });
        StartRun { job: first.job, run, tasks: Vec::new(), log, once: Some(once.clone()) }
    };
    let stale = claim(&world, "a").await;
    let other = taken_over(&world, &stale).await;
    is_lost(store.start_run(start(&stale), world.now()).await);
    assert_eq!(world.view(first).await.latest_run().run.id, first.run, "nothing was begun");
    assert_eq!(stored(&world, &stale).await, Some(other.clone()));

    let once = next(&world, &other);
    let begun = must(store.start_run(start(&once), world.now()).await);
    assert_ne!(begun.latest_run().run.id, first.run);
    is_answered(&world, &once, RunKey { job: first.job, run: begun.latest_run().run.id }).await;
}

pub async fn of_many_operations_under_one_claim_one_happens(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let store = &world.backend.store;
    let once = claim(&world, "a").await;
    let submissions: Vec<Submission> = (0..10)
        .map(|_| {
            let next = RecordVersion::new(&world.entropy);
            Submission { once: Some(Once { next, ..once.clone() }), ..world.submission(false, 2) }
        })
        .collect();
    let outcomes = join_all(submissions.iter().map(|submission| store.submit(submission.clone()))).await;
    let mut made = Vec::new();
    for (submission, outcome) in submissions.iter().zip(outcomes) {
        let there = must(store.job(None, submission.job.id).await).is_some();
        assert_eq!(there, outcome.is_ok(), "{outcome:?}");
        match outcome {
            Ok(_) => made.push(submission),
            lost => is_lost(lost),
        }
    }
    let [submission] = made[..] else { panic!("{} jobs were made", made.len()) };
    let key = RunKey { job: submission.job.id, run: submission.job.latest_run };
    is_answered(&world, submission.once.as_ref().expect("it had one"), key).await;
}

pub async fn an_answer_survives_a_crash_with_what_it_answers(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let (once, unused) = (claim(&world, "a").await, claim(&world, "b").await);
    let submission = Submission { once: Some(once.clone()), ..world.submission(false, 2) };
    let key = RunKey { job: submission.job.id, run: submission.job.latest_run };
    must(world.backend.store.submit(submission).await);
    let crashed = harness.crash().await;
    let world = world.on(crashed.backend());
    is_answered(&world, &once, key).await;
    // Claimed before the crash, and nothing done: the claim is still good.
    let submission = Submission { once: Some(unused.clone()), ..world.submission(false, 2) };
    let key = RunKey { job: submission.job.id, run: submission.job.latest_run };
    must(world.backend.store.submit(submission).await);
    is_answered(&world, &unused, key).await;
}
