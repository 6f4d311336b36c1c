//! Each repair: the damage is made for real, one sweep mends it, a second finds nothing.

#![expect(clippy::unwrap_used, reason = "in a test, an unwrap that fails is the report")]

use conveyor_domain::ingest::{IngestEvent, IngestState};
use conveyor_domain::message::QueueName;
use conveyor_domain::params::Format;
use conveyor_domain::task::{Outcome, ResultRef};
use conveyor_domain::{Clock, RunStatus, Timestamp, limits};
use conveyor_store::conformance::World;
use conveyor_store::embedded::Embedded;
use conveyor_store::port::{BlobKey, Error, RunKey};
use conveyor_sweeper::{Sweep, sweep};
use std::sync::Arc;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

#[derive(Debug)]
struct Fixed(Timestamp);

impl Clock for Fixed {
    fn now(&self) -> Timestamp {
        self.0
    }
}

struct Damaged {
    world: World,
    _store: Arc<Embedded>,
    _dir: TempDir,
}

impl Damaged {
    fn new() -> Damaged {
        let dir = TempDir::new().unwrap();
        let store = Embedded::open(dir.path(), Timestamp(1_800_000_000_000)).unwrap();
        Damaged { world: World::new(store.backend()), _store: store, _dir: dir }
    }

    async fn sweep(&self) {
        let (clock, stop) = (Fixed(self.world.now()), CancellationToken::new());
        sweep(&Sweep { backend: &self.world.backend, clock: &clock, stop: &stop }).await;
    }

    async fn depth(&self, key: RunKey) -> u64 {
        let depth = self.world.backend.queue.depth(QueueName::Run(key.run), self.world.now()).await.unwrap();
        depth.visible + depth.hidden
    }
}

fn success() -> Outcome {
    Outcome::Successful(ResultRef {
        object: None,
        whole: false,
        offset: 0,
        length: 0,
        format: Format::Html,
        http_status: 200,
    })
}

#[tokio::test]
async fn lost_messages_are_sent_again_for_the_rows_that_need_them() {
    let damaged = Damaged::new();
    let key = damaged.world.submit(false, 10).await;
    damaged.world.finish(key, 3, success()).await;
    damaged.world.claimed(key, 4).await;
    while !damaged.world.backend.queue.remove(QueueName::Run(key.run), 3).await.unwrap() {}
    assert_eq!(damaged.depth(key).await, 0);
    damaged.sweep().await;
    assert_eq!(damaged.depth(key).await, 9, "every row but the settled one");
    damaged.sweep().await;
    assert_eq!(damaged.depth(key).await, 9, "a second sweep finds nothing");
}

#[tokio::test]
async fn a_lost_completion_is_made_up_for() {
    let damaged = Damaged::new();
    let key = damaged.world.submit(false, 2).await;
    let open = damaged.world.submit(true, 1).await;
    for index in 0..2 {
        damaged.world.finish(key, index, success()).await;
    }
    damaged.world.finish(open, 0, success()).await;
    damaged.world.pass(7);
    damaged.sweep().await;
    let done = damaged.world.view(key).await.latest.run;
    assert_eq!((done.status, done.updated), (RunStatus::Completed, damaged.world.now()));
    assert_eq!(damaged.world.view(open).await.latest.run.status, RunStatus::Pending);
    damaged.world.pass(7);
    damaged.sweep().await;
    assert_eq!(damaged.world.view(key).await.latest.run, done);
    assert_eq!(damaged.depth(key).await, 0, "the queue of an ended run is gone");
}

#[tokio::test]
async fn many_deleted_jobs_go_in_one_sweep_and_take_their_objects_along() {
    let damaged = Damaged::new();
    let (store, blobs) = (&damaged.world.backend.store, &damaged.world.backend.blobs);
    let mut objects = Vec::new();
    for _ in 0..230 {
        let key = damaged.world.submit(false, 1).await;
        let object = BlobKey::results(key.job, key.run, damaged.world.worker, 0);
        blobs.put(&object, "body".into()).await.unwrap();
        store.apply(key.job, conveyor_domain::lifecycle::Command::Delete, damaged.world.now()).await.unwrap();
        objects.push(object);
    }
    damaged.sweep().await;
    assert!(store.deleted_jobs(1).await.unwrap().is_empty());
    for object in objects {
        assert_eq!(blobs.get(&object, 0, 1).await, Err(Error::NotFound));
    }
}

#[tokio::test]
async fn a_sweep_stops_when_it_is_told_to() {
    let damaged = Damaged::new();
    let key = damaged.world.submit(false, 1).await;
    damaged.world.finish(key, 0, success()).await;
    let (clock, stop) = (Fixed(damaged.world.now()), CancellationToken::new());
    stop.cancel();
    sweep(&Sweep { backend: &damaged.world.backend, clock: &clock, stop: &stop }).await;
    assert_eq!(damaged.world.view(key).await.latest.run.status, RunStatus::Running);
}

async fn accepted(damaged: &Damaged) -> RunKey {
    let world = &damaged.world;
    let upload = world.upload().await;
    let staged = world.staged("list", b"https://a.example\n").await;
    world.backend.store.put_staged(upload.id, staged.clone(), world.now()).await.unwrap();
    world.accept(&upload, &staged).await
}

async fn calls(damaged: &Damaged) -> u64 {
    let (queue, now) = (&damaged.world.backend.queue, damaged.world.now());
    queue.depth(QueueName::Control, now).await.unwrap().visible
}

async fn lose_calls(damaged: &Damaged) {
    while !damaged.world.backend.queue.remove(QueueName::Control, 10).await.unwrap() {}
}

async fn state(damaged: &Damaged, key: RunKey) -> IngestState {
    let ingest = damaged.world.backend.store.ingest(key).await.unwrap().unwrap();
    IngestState::fold(&ingest.log).unwrap()
}

#[tokio::test]
async fn a_lost_call_for_an_ingester_is_repeated_but_not_for_ever() {
    let damaged = Damaged::new();
    let key = accepted(&damaged).await;
    damaged.sweep().await;
    assert_eq!(calls(&damaged).await, 1, "it was only just sent");
    for resent in 1..=limits::INGEST_RESENDS_MAX {
        lose_calls(&damaged).await;
        damaged.sweep().await;
        assert_eq!(calls(&damaged).await, 0, "somebody may still be at it");
        damaged.world.pass(11_000);
        damaged.sweep().await;
        assert_eq!((calls(&damaged).await, state(&damaged, key).await.resends), (1, resent));
        damaged.sweep().await;
        assert_eq!(calls(&damaged).await, 1, "a second sweep finds nothing");
    }
    lose_calls(&damaged).await;
    damaged.world.pass(11_000);
    damaged.sweep().await;
    assert_eq!(calls(&damaged).await, 0, "a list that never gets anywhere is not tried for ever");
    let given_up = state(&damaged, key).await;
    assert!(given_up.dead_lettered && given_up.last_error.is_some(), "and says so");
    damaged.world.pass(200_000);
    damaged.sweep().await;
    assert_eq!(state(&damaged, key).await, given_up, "once");
}

#[tokio::test]
async fn a_stalled_ingest_is_called_again_but_not_one_that_waits_its_turn() {
    let damaged = Damaged::new();
    accepted(&damaged).await;
    damaged.world.pass(500_000);
    damaged.sweep().await;
    assert_eq!(calls(&damaged).await, 1, "its message waits: nobody has the time for it");
    // Somebody has it, and says nothing.
    let (queue, now) = (&damaged.world.backend.queue, damaged.world.now());
    let hour = std::time::Duration::from_secs(3_600);
    assert_eq!(queue.receive(QueueName::Control, 1, hour, now).await.unwrap().len(), 1);
    damaged.sweep().await;
    assert_eq!(calls(&damaged).await, 1, "nothing was said for long");
}

#[tokio::test]
async fn a_dead_letter_is_left_to_an_operator_until_its_run_has_ended() {
    let damaged = Damaged::new();
    let key = accepted(&damaged).await;
    let event = IngestEvent::AttemptFailed { error: "no disk".into(), dead_lettered: true };
    let entry = state(&damaged, key).await.entry(event).unwrap();
    damaged.world.backend.store.append(key, entry, damaged.world.now()).await.unwrap();
    lose_calls(&damaged).await;
    damaged.world.pass(200_000);
    damaged.sweep().await;
    assert_eq!(calls(&damaged).await, 0);
    let stop = conveyor_domain::lifecycle::Command::Stop;
    damaged.world.backend.store.apply(key.job, stop, damaged.world.now()).await.unwrap();
    lose_calls(&damaged).await;
    damaged.world.pass(200_000);
    damaged.sweep().await;
    assert_eq!(calls(&damaged).await, 1, "it has only to be cut");
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
        objects.push((upload, key));
    }
    let used = world.upload().await;
    let staged = world.staged("used", b"https://a.example\n").await;
    world.backend.store.put_staged(used.id, staged.clone(), world.now()).await.unwrap();
    world.accept(&used, &staged).await;
    world.pass(i64::try_from(limits::UPLOAD_TTL.as_millis()).unwrap());
    damaged.sweep().await;
    for (_, object) in &objects {
        assert_eq!(world.backend.blobs.get(object, 0, 1).await, Err(Error::NotFound));
    }
    let kept: BlobKey = staged.object.parse().unwrap();
    assert!(world.backend.blobs.get(&kept, 0, 1).await.is_ok(), "a job needs it");
    assert!(world.backend.store.doomed_uploads(9).await.unwrap().is_empty());
}
