//! Calls that take ten entries at once, and may do only some of them.

use super::answer;
use super::urls::Urls;
use super::{BATCH_ENTRIES_MAX, BATCH_MAX_BYTES, BATCH_WAITS, BATCHES_AT_ONCE};
use crate::error::unavailable;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::types::{
    BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry,
    SendMessageBatchRequestEntry,
};
use conveyor_domain::QueueName;
use conveyor_store::{Error, Result};
use futures::{StreamExt, TryStreamExt};

/// Why a whole batch came to nothing.
pub enum Failure {
    /// The queue is not there.
    Missing,
    Other(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Other(error)
    }
}

/// The entries that failed.
type Outcome = std::result::Result<Vec<BatchResultErrorEntry>, Failure>;

/// An entry of a batch. Its id is its number among all that were asked for.
pub trait Entry: Clone + Send + Sync {
    const CALL: &'static str;
    /// Whether a queue that is not there is made for it.
    const CREATES: bool = false;

    fn id(&self) -> &str;

    /// What counts towards the size of a batch.
    fn bytes(&self) -> usize {
        0
    }

    fn call(sqs: &Client, url: &str, batch: Vec<Self>) -> impl Future<Output = Outcome> + Send;
}

impl Entry for SendMessageBatchRequestEntry {
    const CALL: &'static str = "SendMessageBatch";
    const CREATES: bool = true;

    fn id(&self) -> &str {
        &self.id
    }

    fn bytes(&self) -> usize {
        self.message_body.len()
    }

    async fn call(sqs: &Client, url: &str, batch: Vec<Self>) -> Outcome {
        let sent = sqs.send_message_batch().queue_url(url).set_entries(Some(batch)).send().await;
        sent.map(|done| done.failed).map_err(|error| failure(Self::CALL, &error))
    }
}

impl Entry for DeleteMessageBatchRequestEntry {
    const CALL: &'static str = "DeleteMessageBatch";

    fn id(&self) -> &str {
        &self.id
    }

    async fn call(sqs: &Client, url: &str, batch: Vec<Self>) -> Outcome {
        let deleted = sqs.delete_message_batch().queue_url(url).set_entries(Some(batch)).send().await;
        deleted.map(|done| done.failed).map_err(|error| failure(Self::CALL, &error))
    }
}

impl Entry for ChangeMessageVisibilityBatchRequestEntry {
    const CALL: &'static str = "ChangeMessageVisibilityBatch";

    fn id(&self) -> &str {
        &self.id
    }

    async fn call(sqs: &Client, url: &str, batch: Vec<Self>) -> Outcome {
        let changed =
            sqs.change_message_visibility_batch().queue_url(url).set_entries(Some(batch)).send().await;
        changed.map(|done| done.failed).map_err(|error| failure(Self::CALL, &error))
    }
}

fn failure<E>(call: &'static str, error: &SdkError<E>) -> Failure
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    if answer::is_missing(error) { Failure::Missing } else { Failure::Other(unavailable(call, error)) }
}

/// Does all entries, some batches at a time. Returns those that were refused for good; `None` if the queue is not there.
pub async fn run<E: Entry>(
    (sqs, urls): (&Client, &Urls),
    queue: QueueName,
    entries: Vec<E>,
) -> Result<Option<Vec<BatchResultErrorEntry>>> {
    if entries.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let found = if E::CREATES { Some(urls.find_or_create(queue).await?) } else { urls.find(queue).await? };
    let Some(url) = found else { return Ok(None) };
    let batches = cut(entries).into_iter().map(|batch| run_batch((sqs, urls), queue, &url, batch));
    let refused = futures::stream::iter(batches).buffer_unordered(BATCHES_AT_ONCE).try_concat().await;
    match refused {
        Ok(refused) => Ok(Some(refused)),
        Err(Failure::Missing) => urls.gone(queue).map(|()| None),
        Err(Failure::Other(error)) => Err(error),
    }
}

fn cut<E: Entry>(entries: Vec<E>) -> Vec<Vec<E>> {
    let (mut batches, mut bytes) = (vec![Vec::new()], 0);
    for entry in entries {
        let last = batches.last().map_or(0, Vec::len);
        if last > 0 && (last == BATCH_ENTRIES_MAX || bytes + entry.bytes() > BATCH_MAX_BYTES) {
            batches.push(Vec::with_capacity(BATCH_ENTRIES_MAX));
            bytes = 0;
        }
        bytes += entry.bytes();
        if let Some(batch) = batches.last_mut() {
            batch.push(entry);
        }
    }
    batches
}

/// Sends one batch, and again what of it failed for a reason that may pass.
async fn run_batch<E: Entry>(
    (sqs, urls): (&Client, &Urls),
    queue: QueueName,
    url: &str,
    mut batch: Vec<E>,
) -> Outcome {
    let (mut refused, mut why) = (Vec::new(), String::new());
    let mut waits = BATCH_WAITS.into_iter();
    loop {
        match E::call(sqs, url, batch.clone()).await {
            Ok(failed) => {
                let (again, final_ones): (Vec<_>, Vec<_>) = failed.into_iter().partition(may_pass);
                refused.extend(final_ones);
                batch.retain(|entry| again.iter().any(|failed| failed.id == entry.id()));
                why = again.first().map_or(why, describe);
            }
            // It was removed, or was made so recently that not every server of theirs knows of it.
            Err(Failure::Missing) if E::CREATES => {
                urls.create(queue).await?;
                "the queue is not there".clone_into(&mut why);
            }
            Err(failure) => return Err(failure),
        }
        if batch.is_empty() {
            return Ok(refused);
        }
        let Some(wait) = waits.next() else {
            let (call, left) = (E::CALL, batch.len());
            return Err(Failure::Other(Error::Unavailable(format!("{call}: {left} entries failed: {why}"))));
        };
        tokio::time::sleep(wait).await;
    }
}

/// Whether an entry that failed is worth sending again. The sender's fault stays what it is, but for one: to send too much.
fn may_pass(failed: &BatchResultErrorEntry) -> bool {
    const FINAL: [&str; 4] =
        ["ReceiptHandleIsInvalid", "InvalidParameterValue", "MessageNotInflight", "InvalidMessageContents"];
    if failed.code.contains("Throttl") {
        return true;
    }
    // Not every server says whose fault it is, so the codes count as well.
    !failed.sender_fault && !FINAL.iter().any(|code| failed.code.contains(code))
}

pub fn describe(failed: &BatchResultErrorEntry) -> String {
    format!("{}: {}", failed.code, failed.message.as_deref().unwrap_or("no message"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_sizes(sizes: &[usize]) -> Vec<SendMessageBatchRequestEntry> {
        let entry = |(id, size): (usize, &usize)| {
            let entry = SendMessageBatchRequestEntry::builder().id(id.to_string());
            entry.message_body("x".repeat(*size)).build().unwrap()
        };
        sizes.iter().enumerate().map(entry).collect()
    }

    fn lengths(sizes: &[usize]) -> Vec<usize> {
        cut(of_sizes(sizes)).iter().map(Vec::len).collect()
    }

    #[test]
    fn batches_are_cut_by_number_and_by_size() {
        assert_eq!(lengths(&[45; 25]), [10, 10, 5]);
        assert_eq!(lengths(&[64 * 1024; 9]), [4, 4, 1]);
        assert_eq!(lengths(&[BATCH_MAX_BYTES + 1, 1, 1]), [1, 2], "what fits nowhere goes alone");
    }

    #[test]
    fn a_batch_keeps_the_order() {
        let ids: Vec<_> = cut(of_sizes(&[1; 33])).concat().iter().map(|e| e.id.clone()).collect();
        assert_eq!(ids, (0..33).map(|i| i.to_string()).collect::<Vec<_>>());
    }

    #[test]
    fn only_what_may_pass_is_sent_again() {
        let failed = |code: &str, sender_fault| {
            let failed = BatchResultErrorEntry::builder().id("0").code(code).sender_fault(sender_fault);
            may_pass(&failed.build().unwrap())
        };
        assert!(failed("InternalError", false));
        assert!(failed("ThrottlingException", true));
        assert!(!failed("AnythingElse", true));
        assert!(!failed("ReceiptHandleIsInvalid", false));
        assert!(!failed("AWS.SimpleQueueService.MessageNotInflight", false));
        assert!(!failed("InvalidParameterValueException", false));
    }
}
