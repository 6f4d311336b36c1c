//! Queues in SQS (SPEC 5.5): standard queues, so messages come in any order, now and then twice, and every count is about
//! right. Nothing here waits: SQS keeps the time, and `now` only says how long a queue has been seen empty.

mod answer;
mod batch;
mod emptiness;
mod names;
mod provision;
mod urls;

pub use provision::{check_names, provision};

use crate::Settings;
use crate::error::unavailable;
use async_trait::async_trait;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::BuildError;
use aws_sdk_sqs::types::{
    BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry, Message,
    MessageSystemAttributeName, QueueAttributeName, SendMessageBatchRequestEntry,
};
use conveyor_domain::{QueueName, Timestamp};
use conveyor_store::port::{Delivery, Depth, Emptiness, Queue, Reader, Receipt};
use conveyor_store::{Error, Result};
use emptiness::EmptyLooks;
use names::Names;
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::watch;
use urls::Urls;

/// What one call of SQS takes.
pub const BATCH_ENTRIES_MAX: usize = 10;
/// SQS takes four times as much by now; servers that are like it may not.
const BATCH_MAX_BYTES: usize = 256 * 1024;
const BATCHES_AT_ONCE: usize = 8;
/// Before what failed of a batch is sent again. Together longer than the second that SQS wants for a new queue.
const BATCH_WAITS: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(800),
];
/// Queues that are remembered.
const QUEUES_KNOWN_MAX: usize = 4_096;
/// The longest that SQS keeps a message, counted from the first send, also in the dead-letter queue.
const RETENTION: Duration = Duration::from_secs(14 * 24 * 3600);
/// SQS hides a message for 12 hours at most, counted from its receive, and refuses what is longer. This leaves an hour for
/// what was done since.
const HIDDEN_MAX: Duration = Duration::from_secs(11 * 3600);

/// Messages are hidden by whole seconds, never for less than was asked for.
fn seconds(time: Duration) -> i32 {
    let whole = time.min(HIDDEN_MAX).as_millis().div_ceil(1_000);
    i32::try_from(whole).unwrap_or(i32::MAX)
}

fn attributes(retention: Duration, visibility: Duration) -> HashMap<QueueAttributeName, String> {
    HashMap::from([
        (QueueAttributeName::MessageRetentionPeriod, retention.as_secs().to_string()),
        (QueueAttributeName::VisibilityTimeout, visibility.as_secs().to_string()),
    ])
}

#[derive(Debug)]
pub struct Queues {
    sqs: Client,
    urls: Urls,
    empty_looks: EmptyLooks,
    changes: watch::Sender<u64>,
}

impl Queues {
    pub fn new(sqs: Client, settings: &Settings) -> Queues {
        Queues {
            urls: Urls::new(sqs.clone(), Names::new(&settings.queue_prefix)),
            sqs,
            empty_looks: EmptyLooks::new(settings.queue_empty_after),
            changes: watch::Sender::new(0),
        }
    }

    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn announce(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }

    async fn run<E: batch::Entry>(
        &self,
        queue: QueueName,
        entries: std::result::Result<Vec<E>, BuildError>,
    ) -> Result<Option<Vec<BatchResultErrorEntry>>> {
        let entries = entries.map_err(|error| Error::Unavailable(error.to_string()))?;
        batch::run((&self.sqs, &self.urls), queue, entries).await
    }

    /// What SQS counts in a queue; nothing in one that is not there.
    async fn counts(&self, queue: QueueName) -> Result<Depth> {
        let Some(url) = self.urls.find(queue).await? else { return Ok(Depth::default()) };
        let look = self
            .sqs
            .get_queue_attributes()
            .queue_url(&*url)
            .attribute_names(QueueAttributeName::ApproximateNumberOfMessages)
            .attribute_names(QueueAttributeName::ApproximateNumberOfMessagesNotVisible)
            .attribute_names(QueueAttributeName::ApproximateNumberOfMessagesDelayed);
        match look.send().await {
            Ok(found) => depth(&found.attributes.unwrap_or_default()),
            Err(error) if answer::is_missing(&error) => self.urls.gone(queue).map(|()| Depth::default()),
            Err(error) => Err(unavailable("GetQueueAttributes", &error)),
        }
    }
}

fn depth(attributes: &HashMap<QueueAttributeName, String>) -> Result<Depth> {
    let count = |name: QueueAttributeName| {
        let unreadable = || Error::Unavailable(format!("GetQueueAttributes: no number in {name}"));
        attributes.get(&name).and_then(|value| value.parse::<u64>().ok()).ok_or_else(unreadable)
    };
    Ok(Depth {
        visible: count(QueueAttributeName::ApproximateNumberOfMessages)?,
        hidden: count(QueueAttributeName::ApproximateNumberOfMessagesNotVisible)?
            + count(QueueAttributeName::ApproximateNumberOfMessagesDelayed)?,
        at_least: false,
    })
}

/// `None` for one that could never be acknowledged; none such is known to exist.
fn delivery(message: Message) -> Option<Delivery> {
    let counted = message
        .attributes
        .as_ref()
        .and_then(|attributes| attributes.get(&MessageSystemAttributeName::ApproximateReceiveCount))
        .and_then(|count| count.parse().ok());
    Some(Delivery {
        body: message.body.unwrap_or_default(),
        receipt: Receipt(message.receipt_handle?),
        receives: counted.unwrap_or(1),
    })
}

fn hide(
    number: usize,
    receipt: Receipt,
    time: Duration,
) -> std::result::Result<ChangeMessageVisibilityBatchRequestEntry, BuildError> {
    ChangeMessageVisibilityBatchRequestEntry::builder()
        .id(number.to_string())
        .receipt_handle(receipt.0)
        .visibility_timeout(seconds(time))
        .build()
}

#[async_trait]
impl Queue for Queues {
    async fn send(&self, queue: QueueName, bodies: Vec<String>, _now: Timestamp) -> Result<()> {
        if bodies.is_empty() {
            return Ok(());
        }
        let entry = |(number, body): (usize, String)| {
            SendMessageBatchRequestEntry::builder().id(number.to_string()).message_body(body).build()
        };
        let refused = self.run(queue, bodies.into_iter().enumerate().map(entry).collect()).await;
        // Also after an error: some of them may be there.
        self.empty_looks.forget(queue);
        self.announce();
        match refused?.unwrap_or_default().first() {
            None => Ok(()),
            Some(refused) => {
                Err(Error::Unavailable(format!("SendMessageBatch: {}", batch::describe(refused))))
            }
        }
    }

    async fn receive(
        &self,
        queue: QueueName,
        max: usize,
        visibility: Duration,
        _now: Timestamp,
    ) -> Result<Vec<Delivery>> {
        let max = i32::try_from(max.min(BATCH_ENTRIES_MAX)).unwrap_or(0);
        if max == 0 {
            return Ok(Vec::new());
        }
        let Some(url) = self.urls.find(queue).await? else { return Ok(Vec::new()) };
        let receive = self
            .sqs
            .receive_message()
            .queue_url(&*url)
            .max_number_of_messages(max)
            .visibility_timeout(seconds(visibility))
            .wait_time_seconds(0)
            .message_system_attribute_names(MessageSystemAttributeName::ApproximateReceiveCount);
        match receive.send().await {
            Ok(received) => {
                Ok(received.messages.unwrap_or_default().into_iter().filter_map(delivery).collect())
            }
            Err(error) if answer::is_missing(&error) => self.urls.gone(queue).map(|()| Vec::new()),
            // As many are in flight as SQS allows. More come once some of them are done.
            Err(error) if answer::is_over_limit(&error) => {
                metrics::counter!("conveyor_queue_over_limit_total").increment(1);
                Ok(Vec::new())
            }
            Err(error) => Err(unavailable("ReceiveMessage", &error)),
        }
    }

    async fn ack(&self, queue: QueueName, receipts: Vec<Receipt>) -> Result<()> {
        let entry = |(number, receipt): (usize, Receipt)| {
            DeleteMessageBatchRequestEntry::builder().id(number.to_string()).receipt_handle(receipt.0).build()
        };
        // Whatever was refused is stale.
        self.run(queue, receipts.into_iter().enumerate().map(entry).collect()).await.map(|_| ())
    }

    async fn release(
        &self,
        queue: QueueName,
        receipts: Vec<(Receipt, Duration)>,
        _now: Timestamp,
    ) -> Result<()> {
        let at_once = receipts.iter().any(|(_, delay)| delay.is_zero());
        let entry = |(number, (receipt, delay))| hide(number, receipt, delay);
        // Whatever was refused is stale, or was held for so long that it cannot be hidden any longer: it comes back by itself.
        self.run(queue, receipts.into_iter().enumerate().map(entry).collect()).await?;
        if at_once {
            self.announce();
        }
        Ok(())
    }

    async fn extend(
        &self,
        queue: QueueName,
        receipts: Vec<Receipt>,
        visibility: Duration,
        _now: Timestamp,
    ) -> Result<Vec<Option<Receipt>>> {
        let entry = |(number, receipt): (usize, &Receipt)| hide(number, receipt.clone(), visibility);
        let refused = self.run(queue, receipts.iter().enumerate().map(entry).collect()).await?;
        let Some(refused) = refused else { return Ok(vec![None; receipts.len()]) };
        // A receipt stays the same here for as long as it is good.
        let mut kept: Vec<_> = receipts.into_iter().map(Some).collect();
        for number in refused.iter().filter_map(|refused| refused.id.parse::<usize>().ok()) {
            if let Some(receipt) = kept.get_mut(number) {
                *receipt = None;
            }
        }
        Ok(kept)
    }

    /// Only a receive can tell.
    async fn may_have(&self, queues: Vec<QueueName>, _now: Timestamp) -> Result<Vec<bool>> {
        Ok(vec![true; queues.len()])
    }

    async fn emptiness(&self, queue: QueueName, now: Timestamp) -> Result<Emptiness> {
        if self.counts(queue).await? == Depth::default() {
            return Ok(self.empty_looks.believe(queue, now));
        }
        self.empty_looks.forget(queue);
        Ok(Emptiness::Messages)
    }

    async fn depth(&self, queue: QueueName, _reader: Reader, _now: Timestamp) -> Result<Depth> {
        self.counts(queue).await
    }

    async fn remove(&self, queue: QueueName, _limit: u32) -> Result<bool> {
        let Some(url) = self.urls.find(queue).await? else { return Ok(true) };
        let removed = self.sqs.delete_queue().queue_url(&*url).send().await;
        self.urls.forget(queue);
        self.empty_looks.forget(queue);
        match removed {
            Ok(_) => Ok(true),
            Err(error) if answer::is_missing(&error) => Ok(true),
            Err(error) => Err(unavailable("DeleteQueue", &error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up_to_seconds_that_sqs_takes() {
        let of = |ms| seconds(Duration::from_millis(ms));
        assert_eq!((of(0), of(1), of(1_000), of(1_001)), (0, 1, 1, 2));
        assert_eq!(seconds(Duration::MAX), 11 * 3600);
    }
}
