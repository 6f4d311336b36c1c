//! Callers take turns, and short lists do not wait for long ones.

use crate::blobs::gated;
use crate::world::{World, lines, small_chunks};
use conveyor_domain::{CallerId, IngestStatus, QueueName, limits};
use conveyor_ingest::{IngestConfig, Ingester};
use conveyor_store::port::{Depth, Reader, RunKey};
use conveyor_testkit::until;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const LONG: u32 = 200;
const SHORT: u32 = 20;

async fn is_done(world: &World, key: RunKey) -> bool {
    let view = world.backend.store.job(None, key.job).await.unwrap().unwrap();
    view.latest_run().run.ingest == Some(IngestStatus::Done)
}

async fn read_beside(world: &mut World, rows: u32) {
    let key = world.accept_lines(&lines(rows)).await;
    until("a list is read beside those that are under way", async || is_done(world, key).await).await;
}

#[tokio::test]
async fn neither_others_nor_short_lists_wait_for_the_long_lists_of_one_caller() {
    let mut world = World::new();
    let (mut long, mut objects) = (Vec::new(), Vec::new());
    for _ in 0..30 {
        let key = world.accept_lines(&lines(LONG)).await;
        objects.push(world.state(key).await.list().unwrap().staged.object.clone());
        long.push(key);
    }
    // Whatever is begun of the long lists stays under way until the gate is closed.
    let (gated, backend) = gated(&world.backend, objects);
    let small_max_bytes = lines(LONG / 2).len() as u64;
    let config = IngestConfig { small_max_bytes, ..small_chunks() };
    let start = |world: &World| {
        let ingester = Ingester::new(backend.clone(), world.clock.clone(), &world.entropy, config);
        let stop = CancellationToken::new();
        (stop.clone(), tokio::spawn(conveyor_ingest::run(Arc::new(ingester), stop)))
    };
    let (_, running) = start(&world);
    let of_caller = limits::INGESTS_MAX as usize;
    until("the caller has its places", async || gated.waiting.load(Ordering::SeqCst) >= of_caller).await;
    let one = world.caller;
    let other = CallerId::new(world.now(), &world.entropy);
    // One after another: each takes a look that receives all that wait, and passes them over.
    for (caller, rows) in [(one, SHORT), (other, SHORT), (other, LONG)] {
        world.caller = caller;
        read_beside(&mut world, rows).await;
    }
    assert_eq!(gated.waiting.load(Ordering::SeqCst), of_caller, "half of the places");

    // The process dies, perhaps within a look. That costs a message the one receive that was under way, however often it
    // was passed over before.
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    world.clock.advance(limits::VISIBILITY);
    let (queue, moment) = (world.backend.queue.clone(), Duration::from_millis(1));
    let received = queue.receive(QueueName::Control, 99, moment, world.now()).await.unwrap();
    assert!(received.len() >= long.len());
    assert_eq!(received.iter().map(|message| message.receives).max(), Some(2));
    world.clock.advance_ms(2);

    // Now all of them were received before, and begun at once, as far as the places for such lists go.
    let (stop, running) = start(&world);
    let again = of_caller + 2 * of_caller + of_caller;
    until("the caller has its places again", async || gated.waiting.load(Ordering::SeqCst) >= again).await;
    read_beside(&mut world, LONG).await;
    assert_eq!(
        gated.waiting.load(Ordering::SeqCst),
        again,
        "half of the places for lists that were tried, and of the lane"
    );
    for key in &long {
        assert!(!is_done(&world, *key).await);
    }

    gated.gate.close();
    until("all lists are read, and no message is left", async || {
        world.clock.advance_ms(500);
        queue.depth(QueueName::Control, Reader::Role, world.now()).await.unwrap() == Depth::default()
    })
    .await;
    for key in long {
        assert!(is_done(&world, key).await);
    }
    assert_eq!(
        queue.depth(QueueName::ControlDead, Reader::Role, world.now()).await.unwrap(),
        Depth::default()
    );
    stop.cancel();
    running.await.unwrap();
}
