//! Sending refs behind the rows that they are about, with a transactional outbox (SPEC 5.4): the record is written with the
//! count, and goes when all refs are sent. The sweeper sends those of a record that stays.

use super::{Table, keys};
use crate::error::unavailable;
use aws_sdk_dynamodb::types::{DeleteRequest, TransactWriteItem, WriteRequest};
use conveyor_domain::job::record::Expected;
use conveyor_domain::{
    CallerId, QueueName, Record, RecordWrite, RunId, TaskRef, Timestamp, UnsentRefs, limits,
};
use conveyor_store::port::{RecordStore, RunKey};
use conveyor_store::{Error, Result};
use futures::future::OptionFuture;
use tokio::time::{Instant, timeout_at};

/// Refs that are about to be sent. `None`: there are none.
#[derive(Clone, Debug)]
pub struct Outbox(Option<Record>);

impl Table {
    /// The outbox of the refs of these tasks.
    pub fn outbox(&self, key: RunKey, indexes: impl Iterator<Item = u32>, now: Timestamp) -> Outbox {
        let unsent = UnsentRefs::of(key.job, indexes);
        Outbox(unsent.map(|unsent| unsent.record(key.run, now, self.refs_sent_within, &self.entropy)))
    }

    /// To be part of the transaction that makes the tasks count.
    pub fn outbox_write(&self, Outbox(record): &Outbox) -> Result<Option<TransactWriteItem>> {
        let put = |record: &Record| self.record_write(&RecordWrite::put(record.clone(), Expected::Anything));
        record.as_ref().map(put).transpose()
    }

    /// For rows that count without a transaction.
    pub async fn write_outbox(&self, Outbox(record): &Outbox) -> Result<()> {
        let Some(record) = record else { return Ok(()) };
        self.write_record(RecordWrite::put(record.clone(), Expected::Anything)).await.map(drop)
    }

    /// Sends refs of rows that count. Those that get lost here are sent by the sweeper: their outbox stays.
    pub async fn send_refs(
        &self,
        caller: CallerId,
        run: RunId,
        refs: impl Iterator<Item = TaskRef>,
        Outbox(record): Outbox,
        now: Timestamp,
    ) {
        let bodies: Vec<String> = refs.map(|task| task.to_string()).collect();
        self.send_committed(caller, QueueName::Run(run), bodies, Outbox(record), now).await;
    }

    /// Sends messages about rows that are committed. A slow queue must not delay the answer: after `SENT_WITHIN` the request
    /// goes on, and so does the sending, in the background. Whatever is lost is found by a sweep (SPEC 5.4, 6.8, 6.13).
    pub async fn send_committed(
        &self,
        caller: CallerId,
        queue: QueueName,
        bodies: Vec<String>,
        Outbox(record): Outbox,
        now: Timestamp,
    ) {
        if bodies.is_empty() {
            return;
        }
        let deadline = Instant::now() + limits::SENT_WITHIN;
        let room = self.sending.room(caller, bodies.iter().map(String::len).sum());
        let Ok(Some(room)) = timeout_at(deadline, room).await else {
            tracing::warn!(?queue, "messages were not sent, too many are waiting for SQS; a sweep will");
            return;
        };
        let (queues, sent) = (self.queues.clone(), record.map(|record| self.sent(&record)));
        let sending = tokio::spawn(async move {
            match queues.send(queue, bodies, now).await {
                Err(error) => tracing::warn!(?queue, %error, "messages were not sent; a sweep will"),
                Ok(_) => {
                    if let Some(Err(error)) = OptionFuture::from(sent).await {
                        tracing::warn!(?queue, %error, "refs were sent, and may be sent again");
                    }
                }
            }
            drop(room);
        });
        if timeout_at(deadline, sending).await.is_err() {
            tracing::warn!(?queue, "SQS is slow; its messages are sent in the background");
        }
    }

    /// Removes an outbox whose refs are sent.
    fn sent(&self, record: &Record) -> impl Future<Output = Result<()>> + Send + use<> {
        let key = keys::record(&record.key).attributes();
        let delete = DeleteRequest::builder().set_key(Some(key)).build();
        let calls = self.dynamodb.batch_write_item();
        let name = self.name.clone();
        async move {
            let delete = delete.map_err(|error| Error::Corrupt(error.to_string()))?;
            let delete = WriteRequest::builder().delete_request(delete).build();
            let answer = calls.request_items(name, vec![delete]).send().await;
            // One that was throttled stays: its refs are sent again, which is harmless.
            answer.map(drop).map_err(|error| unavailable("BatchWriteItem", &error))
        }
    }
}

impl Outbox {
    /// For messages that need none.
    pub const NONE: Outbox = Outbox(None);
}
