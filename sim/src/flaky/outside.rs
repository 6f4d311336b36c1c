//! The ports beside the system of record: queues, objects, budgets.

use super::Flaky;
use async_trait::async_trait;
use bytes::Bytes;
use conveyor_domain::dispatch::grant::{Ask, Hold, Limits, Scope};
use conveyor_domain::{BudgetView, CallerId, Grant, QueueName, Timestamp, WorkerId};
use conveyor_store::Result;
use conveyor_store::port::{
    BlobKey, Blobs, ByteStream, Coordinator, Delivery, Depth, Emptiness, Listed, Queue, Receipt, Stored,
};
use std::time::Duration;
use tokio::sync::watch;

#[async_trait]
impl Queue for Flaky {
    async fn send(&self, queue: QueueName, bodies: Vec<String>, now: Timestamp) -> Result<()> {
        self.pass("send", self.inner.queue.send(queue, bodies, now)).await
    }

    async fn receive(
        &self,
        queue: QueueName,
        max: usize,
        visibility: Duration,
        now: Timestamp,
    ) -> Result<Vec<Delivery>> {
        self.pass("receive", self.inner.queue.receive(queue, max, visibility, now)).await
    }

    async fn ack(&self, queue: QueueName, receipts: Vec<Receipt>) -> Result<()> {
        self.pass("ack", self.inner.queue.ack(queue, receipts)).await
    }

    async fn release(
        &self,
        queue: QueueName,
        receipts: Vec<(Receipt, Duration)>,
        now: Timestamp,
    ) -> Result<()> {
        self.pass("release", self.inner.queue.release(queue, receipts, now)).await
    }

    async fn extend(
        &self,
        queue: QueueName,
        receipts: Vec<Receipt>,
        visibility: Duration,
        now: Timestamp,
    ) -> Result<Vec<Option<Receipt>>> {
        self.pass("extend", self.inner.queue.extend(queue, receipts, visibility, now)).await
    }

    async fn may_have(&self, queues: Vec<QueueName>, now: Timestamp) -> Result<Vec<bool>> {
        self.pass("may_have", self.inner.queue.may_have(queues, now)).await
    }

    async fn emptiness(&self, queue: QueueName, now: Timestamp) -> Result<Emptiness> {
        self.pass("emptiness", self.inner.queue.emptiness(queue, now)).await
    }

    async fn depth(&self, queue: QueueName, now: Timestamp) -> Result<Depth> {
        self.pass("depth", self.inner.queue.depth(queue, now)).await
    }

    async fn remove(&self, queue: QueueName, limit: u32) -> Result<bool> {
        self.pass("remove", self.inner.queue.remove(queue, limit)).await
    }

    async fn ready(&self) -> Result<()> {
        self.pass("ready", self.inner.queue.ready()).await
    }

    fn receive_max(&self) -> usize {
        self.inner.queue.receive_max()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.inner.queue.changes()
    }
}

#[async_trait]
impl Blobs for Flaky {
    async fn put(&self, key: &BlobKey, body: Bytes) -> Result<()> {
        self.pass("put", self.inner.blobs.put(key, body)).await
    }

    async fn get(&self, key: &BlobKey, offset: u64, length: u64) -> Result<Bytes> {
        self.pass("get", self.inner.blobs.get(key, offset, length)).await
    }

    async fn put_stream(&self, key: &BlobKey, body: ByteStream) -> Result<Stored> {
        self.pass("put_stream", self.inner.blobs.put_stream(key, body)).await
    }

    async fn concat(&self, key: &BlobKey, parts: &[BlobKey]) -> Result<Stored> {
        self.pass("concat", self.inner.blobs.concat(key, parts)).await
    }

    async fn read(&self, key: &BlobKey) -> Result<ByteStream> {
        self.pass("read", self.inner.blobs.read(key)).await
    }

    async fn read_pinned(&self, key: &BlobKey, etag: &str, offset: u64) -> Result<ByteStream> {
        let stream = self.pass("read_pinned", self.inner.blobs.read_pinned(key, etag, offset)).await;
        let stream = stream.map(|stream| self.weather.on_the_way(stream));
        self.weather.was_read();
        stream
    }

    async fn delete(&self, key: &BlobKey) -> Result<()> {
        self.pass("delete", self.inner.blobs.delete(key)).await
    }

    async fn list(&self, prefix: &BlobKey, after: Option<&BlobKey>, limit: usize) -> Result<Vec<Listed>> {
        self.pass("list", self.inner.blobs.list(prefix, after, limit)).await
    }

    async fn delete_under(&self, prefix: &BlobKey) -> Result<()> {
        self.pass("delete_under", self.inner.blobs.delete_under(prefix)).await
    }
}

#[async_trait]
impl Coordinator for Flaky {
    async fn ask(&self, scope: &Scope, ask: Ask, now: Timestamp) -> Result<Grant> {
        self.pass("ask", self.inner.coordinator.ask(scope, ask, now)).await
    }

    async fn give_back(&self, scope: &Scope, worker: WorkerId, now: Timestamp) -> Result<()> {
        self.pass("give_back", self.inner.coordinator.give_back(scope, worker, now)).await
    }

    async fn hold(&self, scope: &Scope, hold: Hold, now: Timestamp) -> Result<()> {
        self.pass("hold", self.inner.coordinator.hold(scope, hold, now)).await
    }

    async fn change(&self, scope: &Scope, limits: Limits, now: Timestamp) -> Result<()> {
        self.pass("change", self.inner.coordinator.change(scope, limits, now)).await
    }

    async fn budget(&self, scope: &Scope, now: Timestamp) -> Result<BudgetView> {
        self.pass("budget", self.inner.coordinator.budget(scope, now)).await
    }

    async fn domain_budgets(
        &self,
        caller: CallerId,
        limit: u32,
        now: Timestamp,
    ) -> Result<Vec<(String, BudgetView)>> {
        self.pass("domain_budgets", self.inner.coordinator.domain_budgets(caller, limit, now)).await
    }
}
