//! A list that takes long keeps its message.

use crate::blobs::{Read, scripted};
use crate::world::{World, lines, small_chunks};
use conveyor_domain::{QueueName, limits};
use conveyor_ingest::Ingester;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[tokio::test(start_paused = true)]
async fn a_message_stays_hidden_for_as_long_as_its_list_is_read() {
    let world = World::new();
    world.accept_lines(&lines(10)).await;
    let queue = &world.backend.queue;
    let receive = || queue.receive(QueueName::Control, 1, limits::VISIBILITY, world.now());
    let delivery = receive().await.unwrap().remove(0);
    let backend = scripted(&world.backend, [Read::Hangs]);
    let ingester = Ingester::new(backend, world.clock.clone(), &world.entropy, small_chunks());
    let working = tokio::spawn(async move {
        conveyor_ingest::handle(&ingester, delivery, &CancellationToken::new()).await;
    });
    // Five times as long as a message stays hidden by itself. The paused clock of the runtime moves to the next timer
    // whenever nothing else is left to do; that of the world moves along.
    for _ in 0..15 {
        world.clock.advance_ms(20_000);
        tokio::time::sleep(limits::extend_every(limits::VISIBILITY) + Duration::from_millis(1)).await;
        // Behind what the ingester wrote: the clock of the runtime moves on while the disk is still at it.
        queue.send(QueueName::ControlDead, vec!["behind it".to_owned()], world.now()).await.unwrap();
        assert!(receive().await.unwrap().is_empty(), "somebody else got it");
    }
    working.abort();
    let _ = working.await;
    world.clock.advance_ms(61_000);
    assert_eq!(receive().await.unwrap().len(), 1, "and it comes back once nobody keeps it");
}
