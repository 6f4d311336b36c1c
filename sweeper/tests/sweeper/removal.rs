//! What is no longer wanted, or past its time (SPEC 6.6, 6.9, 6.16).

use crate::harness::{DAY, Damaged, SECOND, success};
use conveyor_domain::job::record::Expected;
use conveyor_domain::repair::Kind;
use conveyor_domain::{
    Command, DeadLetter, JobId, QueueName, Record, RecordKey, RecordKind, RecordVersion, RecordWrite,
    RunStatus, Storage, limits,
};
use conveyor_store::Error;
use conveyor_store::port::{BlobKey, RunKey};
use conveyor_sweeper::{Pace, Scope, Sweeper};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

async fn put_object(damaged: &Damaged, key: RunKey) -> BlobKey {
    let object = BlobKey::results(key.job, key.run, damaged.world.worker, 0);
    damaged.backend().blobs.put(&object, "body".into()).await.unwrap();
    object
}

async fn is_gone(damaged: &Damaged, object: &BlobKey) -> bool {
    damaged.backend().blobs.get(object, 0, 1).await == Err(Error::NotFound)
}

async fn upkeep(damaged: &Damaged) -> Vec<&'static str> {
    damaged
        .findings()
        .await
        .iter()
        .inspect(|found| assert_eq!(found.kind, Kind::Upkeep))
        .map(|f| f.repair)
        .collect()
}

fn rows_of(damaged: &Damaged, key: RunKey) -> usize {
    let id = format!("{:?}", rusqlite::types::Value::Blob(key.run.to_bytes().to_vec()));
    damaged.dump().iter().filter(|row| row.contains(&id)).count()
}

#[tokio::test]
async fn many_deleted_jobs_go_in_one_sweep_and_take_their_objects_along() {
    let damaged = Damaged::new();
    let store = &damaged.backend().store;
    let mut objects = Vec::new();
    for _ in 0..230 {
        let key = damaged.world.submit(false, 1).await;
        objects.push(put_object(&damaged, key).await);
        store.apply(key.job, Command::Delete, damaged.world.now()).await.unwrap();
    }
    let found = upkeep(&damaged).await;
    assert_eq!(found.iter().filter(|repair| **repair == "deleted_jobs").count(), 230);
    damaged.sweep().await;
    assert_eq!(upkeep(&damaged).await, [""; 0]);
    for object in objects {
        assert!(is_gone(&damaged, &object).await);
    }
}

#[tokio::test]
async fn what_comes_late_of_a_job_that_is_gone_goes_with_a_later_look() {
    let damaged = Damaged::new();
    let key = damaged.world.submit(false, 1).await;
    damaged.backend().store.apply(key.job, Command::Delete, damaged.world.now()).await.unwrap();
    damaged.sweep().await;
    for pause in [limits::TOMBSTONE_LOOKS[0], limits::TOMBSTONE_LOOKS[1], limits::TOMBSTONE_LOOKS[2]] {
        // A worker that was cut off writes its object, and somebody a ref.
        let object = put_object(&damaged, key).await;
        let queue = QueueName::Run(key.run);
        damaged.backend().queue.send(queue, vec!["1:late".to_owned()], damaged.world.now()).await.unwrap();
        assert_eq!(upkeep(&damaged).await, [""; 0], "not yet");
        damaged.pass_for(pause);
        assert_eq!(upkeep(&damaged).await, ["leftovers"]);
        damaged.sweep().await;
        assert!(is_gone(&damaged, &object).await);
        assert_eq!(damaged.depth(queue).await, 0);
    }
    assert_eq!(damaged.sql("UPDATE tombstones SET looks = looks", []), 1, "it is remembered for longer");
    damaged.pass_for(limits::TOMBSTONE_KEPT);
    damaged.sweep().await;
    assert_eq!(damaged.sql("UPDATE tombstones SET looks = looks", []), 0, "but not for ever");
}

#[tokio::test]
async fn a_deleted_run_goes_and_its_job_stays() {
    let damaged = Damaged::new();
    let key = damaged.world.submit(false, 3).await;
    damaged.world.finish(key, 0, success()).await;
    let (object, store) = (put_object(&damaged, key).await, &damaged.backend().store);
    store.delete_run(key, damaged.world.now()).await.unwrap();
    assert_eq!(upkeep(&damaged).await, ["ended_queues", "deleted_runs"]);
    damaged.sweep().await;
    assert_eq!(upkeep(&damaged).await, [""; 0]);
    assert!(is_gone(&damaged, &object).await);
    assert_eq!(
        (store.run(key.job, key.run).await, damaged.depth(QueueName::Run(key.run)).await),
        (Ok(None), 0)
    );
    assert!(store.job(None, key.job).await.unwrap().is_some());
    assert_eq!(rows_of(&damaged, key), 3, "the run row, and two events");
}

#[tokio::test]
async fn a_run_that_ended_long_ago_keeps_only_what_was_counted() {
    let damaged = Damaged::new();
    let (key, recent) = (damaged.world.submit(false, 2).await, damaged.world.submit(false, 1).await);
    let store = &damaged.backend().store;
    for index in 0..2 {
        damaged.world.finish(key, index, success()).await;
    }
    let object = put_object(&damaged, key).await;
    damaged.sweep().await;
    let before = damaged.world.view(key).await.latest_run().clone();
    assert_eq!(before.run.status, RunStatus::Completed);
    damaged.pass(30 * DAY);
    assert_eq!(upkeep(&damaged).await, [""; 0], "to the millisecond");
    damaged.pass(1);
    assert_eq!(upkeep(&damaged).await, ["expired_runs"]);
    assert_eq!(damaged.reconcile(Scope::Job(recent.job), true).await.findings, []);
    damaged.sweep().await;
    assert_eq!(upkeep(&damaged).await, [""; 0]);
    let after = damaged.world.view(key).await.latest_run().clone();
    assert_eq!((after.run.storage, after.stats), (Storage::Expired, before.stats));
    assert!(is_gone(&damaged, &object).await);
    assert_eq!(store.task(key, conveyor_domain::TaskId::of(key.run, 0)).await, Ok(None));
    assert!(store.task(recent, conveyor_domain::TaskId::of(recent.run, 0)).await.unwrap().is_some());
}

#[tokio::test]
async fn expired_uploads_go_with_their_objects_and_those_in_use_stay() {
    let damaged = Damaged::new();
    let world = &damaged.world;
    let mut objects = Vec::new();
    for _ in 0..3 {
        let upload = world.upload().await;
        let key = BlobKey::upload(upload.id, world.worker, 0);
        world.backend.blobs.put(&key, "https://a.example\n".into()).await.unwrap();
        objects.push(key);
    }
    let used = world.upload().await;
    let staged = world.staged("used", b"https://a.example\n").await;
    world.backend.store.put_staged(used.id, staged.clone(), None, world.now()).await.unwrap();
    world.accept(&used, &staged).await;
    damaged.pass_for(limits::UPLOAD_TTL);
    assert_eq!(upkeep(&damaged).await, ["expired_uploads"; 3]);
    damaged.sweep().await;
    assert_eq!(upkeep(&damaged).await, [""; 0]);
    for object in &objects {
        assert!(is_gone(&damaged, object).await);
    }
    let kept: BlobKey = staged.object.parse().unwrap();
    assert!(!is_gone(&damaged, &kept).await, "a job needs it");
}

/// Neither its rows nor its tombstone are anybody's business while the scope is another job.
#[tokio::test]
async fn a_reconciliation_of_one_job_leaves_the_others_alone() {
    let damaged = Damaged::new();
    let (mine, other) = (damaged.world.submit(false, 2).await, damaged.world.submit(false, 2).await);
    for key in [mine, other] {
        damaged.lose_messages(QueueName::Run(key.run));
    }
    damaged.pass(SECOND);
    let done = damaged.reconcile(Scope::Job(mine.job), false).await;
    assert_eq!(
        done.findings.iter().map(|(finding, _)| finding.subject.job()).collect::<Vec<_>>(),
        [Some(mine.job)]
    );
    let depths =
        (damaged.depth(QueueName::Run(mine.run)).await, damaged.depth(QueueName::Run(other.run)).await);
    assert_eq!(depths, (2, 0));
    for key in [mine, other] {
        damaged.backend().store.apply(key.job, Command::Delete, damaged.world.now()).await.unwrap();
    }
    damaged.reconcile(Scope::Job(mine.job), false).await;
    let there = async |job: JobId| damaged.backend().store.job(None, job).await.unwrap().is_some();
    assert_eq!((there(mine.job).await, there(other.job).await), (false, true));
}

#[tokio::test]
async fn records_past_their_time_are_removed_and_no_others() {
    let damaged = Damaged::new();
    let store = &damaged.backend().store;
    let now = damaged.world.now();
    let key = |n: usize| RecordKey::new(RecordKind::Idempotency, damaged.world.caller, n);
    for (n, expires) in [Some(now), Some(now.after(Duration::from_millis(1))), None].into_iter().enumerate() {
        let record = Record::new(key(n), RecordVersion::from_stored(1), &n).expires(expires);
        store.write_record(RecordWrite::put(record, Expected::Absent)).await.unwrap();
    }
    let sweeper = Sweeper::alone(damaged.backend().clone(), damaged.clock.clone());
    sweeper.remove_expired_records(&CancellationToken::new()).await;
    let there = async |n| store.record(&key(n)).await.unwrap().is_some();
    assert_eq!((there(0).await, there(1).await, there(2).await), (false, true, true));
}

/// One of everything that is removed because of its age.
async fn one_of_each(damaged: &Damaged) -> (RunKey, RecordKey) {
    let (world, store) = (&damaged.world, &damaged.backend().store);
    let (key, deleted) = (world.submit(false, 1).await, world.submit(false, 1).await);
    world.finish(key, 0, success()).await;
    store.apply(key.job, Command::Stop, world.now()).await.unwrap();
    store.apply(deleted.job, Command::Delete, world.now()).await.unwrap();
    put_object(damaged, key).await;
    world.upload().await;
    store.keep_letter(DeadLetter::new("nobody can read it".to_owned(), world.now())).await.unwrap();
    let record = RecordKey::new(RecordKind::Idempotency, world.caller, "key");
    let kept = Record::new(record.clone(), RecordVersion::from_stored(1), &1);
    let kept = kept.expires(Some(world.now().after(limits::IDEMPOTENCY_TTL)));
    store.write_record(RecordWrite::put(kept, Expected::Absent)).await.unwrap();
    damaged.sweep().await;
    (key, record)
}

/// What is there of it: tasks of the run, its object, the upload, the tombstone, the letter, the record.
async fn what_is_there(damaged: &Damaged, key: RunKey, record: &RecordKey) -> [bool; 6] {
    let store = &damaged.backend().store;
    let object = BlobKey::results(key.job, key.run, damaged.world.worker, 0);
    [
        store.task(key, conveyor_domain::TaskId::of(key.run, 0)).await.unwrap().is_some(),
        !is_gone(damaged, &object).await,
        damaged.sql("UPDATE uploads SET claimed = claimed", []) == 1,
        damaged.sql("UPDATE tombstones SET looks = looks", []) == 1,
        !store.letters(None, 9).await.unwrap().is_empty(),
        store.record(record).await.unwrap().is_some(),
    ]
}

#[tokio::test]
async fn nothing_is_removed_by_a_time_that_is_in_doubt() {
    let damaged = Damaged::new();
    let (key, record) = one_of_each(&damaged).await;
    let (sweeper, stop) =
        (Sweeper::alone(damaged.backend().clone(), damaged.clock.clone()), CancellationToken::new());
    let sweep = async || {
        for pace in [Pace::Messages, Pace::Often, Pace::Slowly] {
            sweeper.sweep(pace, &stop).await;
        }
        sweeper.remove_expired_records(&stop).await;
    };
    sweep().await;
    damaged.pass(60 * DAY);
    for _ in 0..6 {
        sweep().await;
        damaged.pass(5 * SECOND);
    }
    assert_eq!(what_is_there(&damaged, key, &record).await, [true; 6], "60 days ahead for half a minute");
    assert_eq!(upkeep_of(&damaged).await, [""; 0], "nor would an operator's look");
    damaged.pass(-60 * DAY);
    sweep().await;
    assert_eq!(what_is_there(&damaged, key, &record).await, [true; 6], "and back");
    damaged.pass(60 * DAY);
    for _ in 0..12 {
        sweep().await;
        damaged.pass(300 * SECOND);
    }
    assert_eq!(what_is_there(&damaged, key, &record).await, [true; 6], "it has held for nearly an hour");
    sweep().await;
    assert_eq!(what_is_there(&damaged, key, &record).await, [false; 6]);
}

async fn upkeep_of(damaged: &Damaged) -> Vec<&'static str> {
    let findings = damaged.findings().await;
    findings.iter().filter(|found| found.kind == Kind::Upkeep).map(|found| found.repair).collect()
}
