use super::over::port;
use super::{Reader, Result};
use conveyor_domain::{QueueName, Timestamp};
use std::time::Duration;

/// Proof of a receive of a message. It is stale once the message was received again.
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
    /// Counting ended there: there may be more.
    pub at_least: bool,
}

/// Whether a queue holds anything at all, visible or hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emptiness {
    Empty,
    /// It looks empty. If it still does at that moment, it is.
    Unsure(Timestamp),
    Messages,
}

port! {
    /// At-least-once queues with visibility timeouts (SPEC 7). A queue exists once something was sent to it.
    ///
    /// What a stale receipt does is not promised. Some backends tell it from the latest one, and it does nothing; others take it
    /// for the latest one, and remove, release or hide the message under whoever holds it. So nobody acknowledges a message that
    /// anybody may still need, and nobody relies on a stale receipt to fail.
    pub trait Queue, decorated by OverQueue over queue {
        /// Durable when it returns. After an error some of them may be there.
        async fn send(&self, queue: QueueName, bodies: Vec<String>, now: Timestamp) -> Result<()>;

        /// Up to `max` visible messages, about the oldest first, hidden from others for `visibility`, which a backend may round
        /// up to seconds. Does not wait. That it finds none does not prove that there is none.
        async fn receive(
            &self,
            queue: QueueName,
            max: usize,
            visibility: Duration,
            now: Timestamp,
        ) -> Result<Vec<Delivery>>;

        /// Removes messages. A receipt that is stale, or whose message is gone, is not an error.
        async fn ack(&self, queue: QueueName, receipts: Vec<Receipt>) -> Result<()>;

        /// Gives messages back: each is visible again after its delay.
        async fn release(
            &self,
            queue: QueueName,
            receipts: Vec<(Receipt, Duration)>,
            now: Timestamp,
        ) -> Result<()>;

        /// Hides messages for `visibility` from now. Returns the receipts to use from then on; `None` for one that is known to
        /// be stale, or whose message is gone.
        async fn extend(
            &self,
            queue: QueueName,
            receipts: Vec<Receipt>,
            visibility: Duration,
            now: Timestamp,
        ) -> Result<Vec<Option<Receipt>>>;

        /// For each queue, whether it may have something to receive. False only if it surely has not; a backend that cannot
        /// tell for less than a receive costs answers true.
        async fn may_have(&self, queues: Vec<QueueName>, now: Timestamp) -> Result<Vec<bool>>;

        /// Whether it holds nothing at all, visible or hidden. A backend that only counts about right is sure once it has seen
        /// the queue empty for long enough to believe it.
        async fn emptiness(&self, queue: QueueName, now: Timestamp) -> Result<Emptiness>;

        /// How much it holds. For a caller it is counted only as far as that costs little.
        async fn depth(&self, queue: QueueName, reader: Reader, now: Timestamp) -> Result<Depth>;

        /// Removes a queue with all its messages, up to `limit` of them a call. True once it is gone.
        async fn remove(&self, queue: QueueName, limit: u32) -> Result<bool>;
    }
}
