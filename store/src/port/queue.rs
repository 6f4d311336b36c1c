use super::Result;
use async_trait::async_trait;
use conveyor_domain::Timestamp;
use conveyor_domain::message::QueueName;
use std::time::Duration;
use tokio::sync::watch;

/// Proof of the latest receive of a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Receipt(pub String);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub body: String,
    pub receipt: Receipt,
    /// How often it was received, this time included.
    pub receives: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Depth {
    pub visible: u64,
    /// In flight or delayed.
    pub hidden: u64,
}

/// At-least-once queues with visibility timeouts (SPEC 7). A queue exists once something was sent to it.
#[async_trait]
pub trait Queue: Send + Sync {
    async fn send(&self, queue: QueueName, bodies: Vec<String>, now: Timestamp) -> Result<()>;

    /// Up to `max` visible messages, oldest first, hidden from others for `visibility`. Does not wait.
    async fn receive(
        &self,
        queue: QueueName,
        max: usize,
        visibility: Duration,
        now: Timestamp,
    ) -> Result<Vec<Delivery>>;

    /// Removes messages. A receipt that is not the latest removes nothing; that is not an error.
    async fn ack(&self, queue: QueueName, receipts: Vec<Receipt>) -> Result<()>;

    /// Gives messages back: each is visible again after its delay.
    async fn release(
        &self,
        queue: QueueName,
        receipts: Vec<(Receipt, Duration)>,
        now: Timestamp,
    ) -> Result<()>;

    /// Hides messages for `visibility` from now. Returns the receipts to use from then on; `None` for a stale one.
    async fn extend(
        &self,
        queue: QueueName,
        receipts: Vec<Receipt>,
        visibility: Duration,
        now: Timestamp,
    ) -> Result<Vec<Option<Receipt>>>;

    /// For each queue, whether it may have something to receive. False only if it surely has not; a backend that cannot
    /// tell for less than a receive costs answers true.
    async fn may_have(&self, queues: Vec<QueueName>, _now: Timestamp) -> Result<Vec<bool>> {
        Ok(vec![true; queues.len()])
    }

    /// Whether it holds nothing at all, visible or hidden.
    async fn is_empty(&self, queue: QueueName, now: Timestamp) -> Result<bool> {
        Ok(self.depth(queue, now).await? == Depth::default())
    }

    async fn depth(&self, queue: QueueName, now: Timestamp) -> Result<Depth>;

    /// Removes a queue with all its messages, up to `limit` of them a call. True once it is gone.
    async fn remove(&self, queue: QueueName, limit: u32) -> Result<bool>;

    /// The most that one `receive` returns.
    fn receive_max(&self) -> usize;

    /// Moves when this process may have made a message receivable. A hint: a backend that cannot tell never moves it.
    fn changes(&self) -> watch::Receiver<u64>;
}
