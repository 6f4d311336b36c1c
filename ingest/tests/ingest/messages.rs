//! Control messages: when they are acknowledged, come back, are sent anew, or become dead letters.

use crate::world::{World, lines, small_chunks};
use conveyor_domain::ingest::IngestEvent;
use conveyor_domain::limits;
use conveyor_domain::message::QueueName;
use conveyor_domain::run::IngestStatus;
use conveyor_store::port::Depth;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const DEADLINE: Duration = Duration::from_secs(60);

async fn depth(world: &World, queue: QueueName) -> Depth {
    world.backend.queue.depth(queue, world.now()).await.unwrap()
}

/// Runs the loop until the condition holds.
async fn run_until<F: Future<Output = bool>>(world: &World, condition: impl Fn() -> F) {
    let stop = CancellationToken::new();
    let ingester = Arc::new(world.ingester(small_chunks()));
    let running = tokio::spawn(conveyor_ingest::run(ingester, stop.clone()));
    let reached = tokio::time::timeout(DEADLINE, async {
        while !condition().await {
            // Retries wait on the clock of the world.
            world.clock.pass(500);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    reached.await.expect("the condition was not reached in time");
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn a_finished_ingest_is_acknowledged() {
    let world = World::new();
    let key = world.accept_lines(&lines(35)).await;
    assert_eq!(depth(&world, QueueName::Control).await.visible, 1);
    run_until(&world, || async {
        world.view(key).await.latest.run.ingest == Some(IngestStatus::Done)
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
    let run = world.view(key).await.latest.run;
    assert_eq!(run.ingest, Some(IngestStatus::Pending), "recoverable as it is");

    // The list is back, and so is its message: the ingest goes on as if nothing had been.
    std::fs::rename(&away, &source).unwrap();
    let now = world.now();
    let dead = world.backend.queue.receive(QueueName::ControlDead, 1, limits::VISIBILITY, now).await.unwrap();
    world.backend.queue.send(QueueName::Control, vec![dead[0].body.clone()], now).await.unwrap();
    run_until(&world, || async { world.view(key).await.latest.run.ingest == Some(IngestStatus::Done) }).await;
    assert_eq!(world.tasks(key).await.len(), 35);
}

#[tokio::test]
async fn a_message_that_was_interrupted_often_is_sent_anew_while_there_is_progress() {
    let world = World::new();
    let key = world.accept_lines(&lines(2_000)).await;
    // As after crashes: received again and again, each time with a chunk more in the log.
    let mut interrupted = 0;
    while !world.state(key).await.phase.is_over() {
        interrupted += 1;
        let stop = CancellationToken::new();
        let ingester = Arc::new(world.ingester(small_chunks()));
        let before = world.state(key).await.progress;
        let running = tokio::spawn(conveyor_ingest::run(ingester, stop.clone()));
        let moved = tokio::time::timeout(DEADLINE, async {
            while world.state(key).await.progress == before && !world.state(key).await.phase.is_over() {
                tokio::task::yield_now().await;
            }
        });
        moved.await.expect("no progress");
        // Nobody gives the message back.
        running.abort();
        let _ = running.await;
        world.clock.pass(61_000);
    }
    assert!(interrupted > 2 * limits::CONTROL_MAX_RECEIVES, "only {interrupted} times");
    run_until(&world, || async { depth(&world, QueueName::Control).await == Depth::default() }).await;
    assert_eq!(depth(&world, QueueName::ControlDead).await, Depth::default());
    assert_eq!(world.tasks(key).await.len(), 2_000);
    let failed = |event: &IngestEvent| matches!(event, IngestEvent::AttemptFailed { .. });
    assert!(!world.log(key).await.iter().any(failed));
}

#[tokio::test]
async fn a_message_that_is_none_becomes_a_dead_letter() {
    let world = World::new();
    world.backend.queue.send(QueueName::Control, vec!["nonsense".to_owned()], world.now()).await.unwrap();
    run_until(&world, || async { depth(&world, QueueName::ControlDead).await.visible == 1 }).await;
}
