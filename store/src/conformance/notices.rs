//! Rules of what is written because a run ended (SPEC 6.21).

use super::world::{POLLS_MAX, broken_off, must, success};
use super::{Harness, World};
use crate::port::{RecordsQuery, RunKey};
use conveyor_domain::delivery::webhook::Target;
use conveyor_domain::job::record::Expected;
use conveyor_domain::{
    AccountFault, Command, Delivery, EventType, JobSpec, Record, RecordKind, RecordVersion, RecordWrite,
    RunStatus, Sealed, WebhookConfig,
};
use futures::future::join_all;
use std::sync::Arc;

/// A job that both a webhook and a state machine wait for.
async fn awaited(world: &World, tasks: u32) -> RunKey {
    let mut submission = world.submission(false, tasks);
    submission.job.spec = Arc::new(JobSpec {
        webhook: Some(WebhookConfig::new("https://hook.example/".to_owned(), false)),
        sfn_task_token: Some(Sealed("token".to_owned())),
        ..submission.job.spec.as_ref().clone()
    });
    let key = RunKey { job: submission.job.id, run: submission.job.latest_run };
    must(world.backend.store.submit(submission).await);
    key
}

async fn notices(world: &World, key: RunKey) -> Vec<Record> {
    let owner = key.job.to_string();
    let query =
        RecordsQuery { kind: RecordKind::Delivery, owner, after: None, newest_first: false, limit: 10 };
    must(world.backend.store.records(query).await)
}

pub async fn a_run_that_completes_is_told_of_once(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = awaited(&world, 2).await;
    for index in 0..2 {
        world.finish(key, index, success()).await;
    }
    assert!(notices(&world, key).await.is_empty(), "it has not ended");
    let drained = || world.backend.store.apply(key.job, Command::Drained, world.now());
    join_all((0..8).map(|_| drained())).await.into_iter().for_each(|done| {
        assert_eq!(must(done).latest_run().run.status, RunStatus::Completed);
    });
    let first = notices(&world, key).await;
    let told: Vec<Delivery> = first.iter().map(|record| must(record.parse())).collect();
    assert_eq!(told.len(), 2, "one for each who waits: {told:?}");
    for target in [Target::Webhook, Target::StepFunctions] {
        let one: Vec<_> = told.iter().filter(|one| one.target == target).collect();
        let [one] = &one[..] else { panic!("{target:?} once") };
        assert_eq!((one.kind, one.event), (EventType::RunCompleted, target.event_of(key.run)));
        assert!(one.body.contains(r#""completed":2"#), "{}", one.body);
    }
    let due = must(world.backend.store.due_records(RecordKind::Delivery, world.now(), 10).await);
    assert_eq!(due.len(), 2, "at once");
    // What became of one since is not undone by whoever comes late.
    let seen = first[0].clone();
    let moved = Record { version: RecordVersion::new(&world.entropy), due: None, ..seen.clone() };
    let write = RecordWrite::put(moved.clone(), Expected::Version(seen.version));
    assert!(must(world.backend.store.write_record(write).await));
    must(drained().await);
    assert_eq!(must(world.backend.store.record(&moved.key).await), Some(moved));
    let crashed = harness.crash().await;
    assert_eq!(notices(&World::new(crashed.backend()), key).await.len(), 2);
}

/// The process may die between any two steps of a command: the end of a run and its notices are one write.
pub async fn nobody_is_told_of_an_end_that_did_not_happen(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let mut keys = Vec::new();
    for polls in 1..=POLLS_MAX {
        let key = awaited(&world, 1).await;
        broken_off(world.backend.store.apply(key.job, Command::Stop, world.now()), polls).await;
        keys.push(key);
    }
    // Whatever was under way is written by now, where writes are in order.
    awaited(&world, 1).await;
    for key in keys {
        let has_ended = async || world.view(key).await.latest_run().run.status.is_terminal();
        let had_ended = has_ended().await;
        let told = !notices(&world, key).await.is_empty();
        assert!(!told || has_ended().await, "told of a run that goes on");
        assert!(told || !had_ended, "it ended, and nobody is told");
        must(world.backend.store.apply(key.job, Command::Stop, world.now()).await);
        assert_eq!(notices(&world, key).await.len(), 1);
    }
}

pub async fn only_a_state_machine_is_told_of_a_stop(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let stopped = awaited(&world, 1).await;
    must(world.backend.store.apply(stopped.job, Command::Stop, world.now()).await);
    let failed = awaited(&world, 1).await;
    let fault = Command::FailRun {
        run: failed.run,
        reason: AccountFault::InsufficientCredits,
        detail: "none left".to_owned(),
    };
    must(world.backend.store.apply(failed.job, fault, world.now()).await);
    for (key, count) in [(stopped, 1), (failed, 2)] {
        assert_eq!(notices(&world, key).await.len(), count);
    }
    let deleted = awaited(&world, 1).await;
    must(world.backend.store.delete_run(deleted, world.now()).await);
    let told: Vec<Delivery> =
        notices(&world, deleted).await.iter().map(|record| must(record.parse())).collect();
    assert!(matches!(&told[..], [Delivery { kind: EventType::RunDeleted, .. }]), "{told:?}");
}
