//! A list that takes long keeps its message.

use crate::world::{World, lines, small_chunks};
use async_trait::async_trait;
use bytes::Bytes;
use conveyor_domain::limits;
use conveyor_domain::message::QueueName;
use conveyor_ingest::Ingester;
use conveyor_store::port::{BlobKey, Blobs, ByteStream, Stored};
use conveyor_store::{Backend, Result};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Objects that can be had, but not yet.
struct Slow(Arc<dyn Blobs>);

#[async_trait]
impl Blobs for Slow {
    async fn read_pinned(&self, _key: &BlobKey, _etag: &str, _offset: u64) -> Result<ByteStream> {
        std::future::pending().await
    }

    async fn put(&self, key: &BlobKey, body: Bytes) -> Result<()> {
        self.0.put(key, body).await
    }

    async fn get(&self, key: &BlobKey, offset: u64, length: u64) -> Result<Bytes> {
        self.0.get(key, offset, length).await
    }

    async fn put_stream(&self, key: &BlobKey, body: ByteStream) -> Result<Stored> {
        self.0.put_stream(key, body).await
    }

    async fn concat(&self, key: &BlobKey, parts: &[BlobKey]) -> Result<Stored> {
        self.0.concat(key, parts).await
    }

    async fn read(&self, key: &BlobKey) -> Result<ByteStream> {
        self.0.read(key).await
    }

    async fn delete(&self, key: &BlobKey) -> Result<()> {
        self.0.delete(key).await
    }

    async fn delete_under(&self, prefix: &BlobKey) -> Result<()> {
        self.0.delete_under(prefix).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_stays_hidden_for_as_long_as_its_list_is_read() {
    let world = World::new();
    world.accept_lines(&lines(10)).await;
    let queue = &world.backend.queue;
    let receive = || queue.receive(QueueName::Control, 1, limits::VISIBILITY, world.now());
    let delivery = receive().await.unwrap().remove(0);
    let backend = Backend { blobs: Arc::new(Slow(world.backend.blobs.clone())), ..world.backend.clone() };
    let ingester = Ingester::new(backend, world.clock.clone(), &world.entropy, small_chunks());
    let working = tokio::spawn(async move {
        conveyor_ingest::handle(&ingester, delivery, &CancellationToken::new()).await;
    });
    // Five times as long as a message stays hidden by itself. The paused clock of the runtime moves to the next timer
    // whenever nothing else is left to do; that of the world moves along.
    for _ in 0..15 {
        world.clock.pass(20_000);
        tokio::time::sleep(limits::VISIBILITY_EXTEND_EVERY + Duration::from_millis(1)).await;
        assert!(receive().await.unwrap().is_empty(), "somebody else got it");
    }
    working.abort();
    let _ = working.await;
    world.clock.pass(61_000);
    assert_eq!(receive().await.unwrap().len(), 1, "and it comes back once nobody keeps it");
}
