//! Control messages: when they are acknowledged, come back, are sent anew, or become dead letters.

use crate::blobs::{Act, Read, gated, scripted};
use crate::world::{World, lines, small_chunks};
use conveyor_domain::{IngestEvent, IngestRef, IngestStatus, QueueName, limits};
use conveyor_ingest::{End, IngestConfig, Ingester};
use conveyor_store::port::{Appended, Depth, Reader};
use conveyor_testkit::{DEADLINE, until};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

async fn depth(world: &World, queue: QueueName) -> Depth {
    world.backend.queue.depth(queue, Reader::Role, world.now()).await.unwrap()
}

/// The clock runs ahead of what is under way: its message must not come back for that.
fn patient() -> IngestConfig {
    IngestConfig { visibility: Duration::from_secs(24 * 3600), ..small_chunks() }
}

/// Runs the loop until the condition holds.
async fn run_until<F: Future<Output = bool>>(world: &World, condition: impl Fn() -> F) {
    let stop = CancellationToken::new();
    let ingester = Arc::new(world.ingester(patient()));
    let running = tokio::spawn(conveyor_ingest::run(ingester, stop.clone()));
    wait_until(world, condition).await;
    stop.cancel();
    running.await.unwrap();
}

async fn wait_until<F: Future<Output = bool>>(world: &World, condition: impl Fn() -> F) {
    until("the condition of the test", async || {
        // Retries wait on the clock of the world.
        world.clock.advance_ms(2_000);
        condition().await
    })
    .await;
}

#[tokio::test]
async fn a_finished_ingest_is_acknowledged() {
    let world = World::new();
    let key = world.accept_lines(&lines(35)).await;
    assert_eq!(depth(&world, QueueName::Control).await.visible, 1);
    run_until(&world, || async {
        world.view(key).await.latest_run().run.ingest == Some(IngestStatus::Done)
            && depth(&world, QueueName::Control).await == Depth::default()
    })
    .await;
    assert_eq!(world.tasks(key).await.len(), 35);
}

#[tokio::test]
async fn what_always_fails_becomes_a_dead_letter_and_says_why() {
    let world = World::new();
    let key = world.accept_lines(&lines(35)).await;
    let source = world.source_path(key).await;
    let away = source.with_extension("away");
    std::fs::rename(&source, &away).unwrap();
    run_until(&world, || async { depth(&world, QueueName::ControlDead).await.visible == 1 }).await;
    let state = world.state(key).await;
    assert!(state.dead_lettered);
    assert_eq!(state.failures, limits::CONTROL_MAX_RECEIVES);
    assert!(state.last_error.unwrap().contains("the staged list is not there"));
    let run = world.view(key).await.latest_run().run.clone();
    assert_eq!(run.ingest, Some(IngestStatus::Pending), "recoverable as it is");

    // The list is back, and so is its message: the ingest goes on as if nothing had been.
    std::fs::rename(&away, &source).unwrap();
    let now = world.now();
    let dead = world.backend.queue.receive(QueueName::ControlDead, 1, limits::VISIBILITY, now).await.unwrap();
    world.backend.queue.send(QueueName::Control, vec![dead[0].body.clone()], now).await.unwrap();
    run_until(&world, || async { world.view(key).await.latest_run().run.ingest == Some(IngestStatus::Done) })
        .await;
    assert_eq!(world.tasks(key).await.len(), 35);
}

/// Ingesters that die with the message in hand, each after a step or two more.
#[tokio::test]
async fn a_message_that_is_interrupted_is_sent_anew_as_long_as_there_is_progress() {
    let world = World::new();
    let key = world.accept_lines(&lines(2_000)).await;
    let (queue, ingester) = (&world.backend.queue, world.ingester(small_chunks()));
    let receive = || async {
        let received = queue.receive(QueueName::Control, 9, limits::VISIBILITY, world.now()).await.unwrap();
        assert_eq!(received.len(), 1, "one message, never none and never two");
        received.into_iter().next().unwrap()
    };
    for _ in 0..3 * limits::CONTROL_MAX_RECEIVES {
        assert_eq!(receive().await.receives, 1);
        let before = world.state(key).await.progress;
        let stop = CancellationToken::new();
        let ingest = ingester.ingest(key, &stop);
        tokio::pin!(ingest);
        // Polled step by step until there is progress, then dropped.
        let progress = async {
            while world.state(key).await.progress == before {
                assert!(futures::poll!(ingest.as_mut()).is_pending(), "there was nothing left to interrupt");
            }
        };
        timeout(DEADLINE, progress).await.expect("there is progress");
        world.clock.advance_ms(61_000);
        let back = receive().await;
        assert_eq!(back.receives, 2);
        // There was progress since it was sent: it gets all its tries back.
        conveyor_ingest::handle(&ingester, back, &CancellationToken::new()).await;
    }
    assert!(!world.state(key).await.phase.is_over(), "there was nothing left to interrupt");
    run_until(&world, || async { depth(&world, QueueName::Control).await == Depth::default() }).await;
    assert_eq!(depth(&world, QueueName::ControlDead).await, Depth::default());
    assert_eq!(world.tasks(key).await.len(), 2_000);
    let failed = |event: &IngestEvent| matches!(event, IngestEvent::AttemptFailed { .. });
    assert!(!world.log(key).await.iter().any(failed));
}

/// The same without progress: it runs out of tries.
#[tokio::test]
async fn a_message_that_gets_nobody_anywhere_is_not_sent_anew() {
    let world = World::new();
    world.accept_lines(&lines(400)).await;
    for _ in 0..limits::CONTROL_MAX_RECEIVES {
        let (queue, now) = (&world.backend.queue, world.now());
        assert_eq!(queue.receive(QueueName::Control, 1, limits::VISIBILITY, now).await.unwrap().len(), 1);
        world.clock.advance_ms(61_000);
    }
    let (queue, now) = (&world.backend.queue, world.now());
    assert!(queue.receive(QueueName::Control, 1, limits::VISIBILITY, now).await.unwrap().is_empty());
    assert_eq!(depth(&world, QueueName::ControlDead).await.visible, 1);
}

/// Four tries that get nowhere, and a fifth that does, before it fails like the others.
#[tokio::test]
async fn the_last_try_is_not_the_last_if_it_gets_further() {
    let world = World::new();
    let key = world.accept_lines(&lines(400)).await;
    let outages = [Read::Fails, Read::Fails, Read::Fails, Read::Fails, Read::BreaksAfter(3_000), Read::Fails];
    let backend = scripted(&world.backend, outages);
    let ingester = Arc::new(Ingester::new(backend, world.clock.clone(), &world.entropy, patient()));
    let stop = CancellationToken::new();
    let running = tokio::spawn(conveyor_ingest::run(ingester, stop.clone()));
    wait_until(&world, || async {
        world.view(key).await.latest_run().run.ingest == Some(IngestStatus::Done)
    })
    .await;
    stop.cancel();
    running.await.unwrap();
    assert_eq!(world.tasks(key).await.len(), 400);
    assert_eq!(depth(&world, QueueName::ControlDead).await, Depth::default());
    let given_up =
        |event: &IngestEvent| matches!(event, IngestEvent::AttemptFailed { dead_lettered: true, .. });
    assert!(!world.log(key).await.iter().any(given_up));
}

/// A message that replaces another may be received while the list is still open under the earlier one.
#[tokio::test]
async fn a_second_message_comes_back_as_soon_as_its_list_is_no_longer_open() {
    let world = World::new();
    let key = world.accept_lines(&lines(40)).await;
    let object = world.state(key).await.list().unwrap().staged.object.clone();
    let (gated, backend) = gated(&world.backend, vec![object]);
    let ingester = Arc::new(Ingester::new(backend, world.clock.clone(), &world.entropy, small_chunks()));
    let stop = CancellationToken::new();
    let running = tokio::spawn(conveyor_ingest::run(ingester, stop.clone()));
    until("the list is open", async || gated.waiting.load(Ordering::SeqCst) == 1).await;
    let second = IngestRef { job: key.job, run: key.run, progress: 1 }.to_string();
    world.backend.queue.send(QueueName::Control, vec![second], world.now()).await.unwrap();
    until("the second is received", async || depth(&world, QueueName::Control).await.hidden == 2).await;
    gated.gate.close();
    // The clock stands still: no visibility ends.
    until("no message is left", async || depth(&world, QueueName::Control).await == Depth::default()).await;
    assert_eq!(world.view(key).await.latest_run().run.ingest, Some(IngestStatus::Done));
    stop.cancel();
    running.await.unwrap();
}

/// The sweeper calls again while somebody is at work: a note in the log is not a competitor.
#[tokio::test]
async fn a_note_in_the_log_does_not_stop_who_is_at_work() {
    let world = World::new();
    let key = world.accept_lines(&lines(100)).await;
    let (store, state, now) = (world.backend.store.clone(), world.state(key).await, world.now());
    let note: Act = Box::new(move || {
        Box::pin(async move {
            let entry = state.entry(IngestEvent::Resent).unwrap();
            assert_eq!(store.append(key, entry, now).await.unwrap(), Appended::Done);
        })
    });
    let backend = scripted(&world.backend, [Read::After(note)]);
    let ingester = Ingester::new(backend, world.clock.clone(), &world.entropy, small_chunks());
    let end = ingester.ingest(key, &CancellationToken::new()).await.unwrap();
    assert_eq!(end, End::Over);
    assert_eq!(world.tasks(key).await.len(), 100);
}

/// A run row that somebody edited: refused again and again, it must not be tried for ever without a pause.
#[tokio::test]
async fn a_run_that_contradicts_its_log_is_a_failure_and_not_a_loop() {
    let world = World::new();
    let key = world.accept_lines(&lines(10)).await;
    let database = rusqlite::Connection::open(world.dir.path().join("conveyor.db")).unwrap();
    assert_eq!(database.execute("UPDATE runs SET ingest = 'done'", []).unwrap(), 1);
    let (ingester, stop) = (world.ingester(small_chunks()), CancellationToken::new());
    let ended = timeout(DEADLINE, ingester.ingest(key, &stop)).await.expect("it ends");
    assert!(ended.is_err());
    assert!(world.tasks(key).await.is_empty());
}

#[tokio::test]
async fn a_message_that_is_none_becomes_a_dead_letter() {
    let world = World::new();
    world.backend.queue.send(QueueName::Control, vec!["nonsense".to_owned()], world.now()).await.unwrap();
    run_until(&world, || async { depth(&world, QueueName::ControlDead).await.visible == 1 }).await;
}
