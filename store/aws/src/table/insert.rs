//! Rows of tasks, put if absent, many a call. A plain batch write would reset rows that are settled.

use super::Table;
use super::item::{Item, json, number, text};
use super::keys;
use crate::client::count_capacity;
use crate::error::missing;
use aws_sdk_dynamodb::types::{BatchStatementErrorCodeEnum, BatchStatementRequest, ReturnConsumedCapacity};
use conveyor_domain::{RunId, TaskId, TaskInput, Timestamp};
use conveyor_store::port::RunKey;
use conveyor_store::{Error, Result};
use futures::{StreamExt, TryStreamExt, stream};

/// What one call takes.
pub const STATEMENTS_MAX: usize = 25;
/// Calls under way at once.
pub const CALLS_INFLIGHT: usize = 8;

/// Where the rows of a run go.
#[derive(Clone, Copy, Debug)]
pub struct RowPlace {
    pub key: RunKey,
    pub seed: RunId,
    pub shards: u32,
}

impl Table {
    /// Writes the rows that are not there yet, and leaves the others as they are.
    pub async fn insert_tasks(
        &self,
        place: RowPlace,
        rows: &[(u32, TaskInput)],
        now: Timestamp,
    ) -> Result<()> {
        let call = |batch: &[(u32, TaskInput)]| -> Result<Vec<BatchStatementRequest>> {
            batch.iter().map(|(index, input)| self.insert_statement(place, *index, input, now)).collect()
        };
        let calls: Vec<_> = rows.chunks(STATEMENTS_MAX).map(call).collect::<Result<_>>()?;
        stream::iter(calls.into_iter().map(|batch| self.insert_batch(batch)))
            .buffer_unordered(CALLS_INFLIGHT)
            .try_collect()
            .await
    }

    fn insert_statement(
        &self,
        place: RowPlace,
        index: u32,
        input: &TaskInput,
        now: Timestamp,
    ) -> Result<BatchStatementRequest> {
        let RowPlace { key, seed, shards } = place;
        let row = keys::task(key.job, shards, key.run, TaskId::of(seed, index));
        BatchStatementRequest::builder()
            .statement(format!(
                "INSERT INTO \"{}\" VALUE {{'pk': ?, 'sk': ?, 'st': ?, 'att': ?, 'cl': ?, 'nb': ?, 'ca': ?, 'inp': ?}}",
                self.name
            ))
            .set_parameters(Some(vec![
                text(row.pk),
                text(row.sk),
                number(0),
                number(0),
                number(0),
                number(0),
                number(now.0),
                json(input)?,
            ]))
            .build()
            .map_err(|e| Error::Corrupt(e.to_string()))
    }

    /// That a row is there is all that is wanted.
    async fn insert_batch(&self, batch: Vec<BatchStatementRequest>) -> Result<()> {
        self.insert_or_find(batch).await.map(drop)
    }

    /// Repeats what was not processed, until all of it is. Returns the places of those whose rows were there.
    pub async fn insert_or_find(&self, batch: Vec<BatchStatementRequest>) -> Result<Vec<usize>> {
        let mut backoff = self.backoff();
        let mut batch: Vec<(usize, BatchStatementRequest)> = batch.into_iter().enumerate().collect();
        let mut found = Vec::new();
        loop {
            let answer = self
                .dynamodb
                .batch_execute_statement()
                .set_statements(Some(batch.iter().map(|(_, statement)| statement.clone()).collect()))
                .return_consumed_capacity(ReturnConsumedCapacity::Total)
                .send()
                .await
                .map_err(|e| self.unavailable("BatchExecuteStatement", &e))?;
            count_capacity("BatchExecuteStatement", "write", answer.consumed_capacity());
            let mut again = Vec::new();
            for ((at, statement), response) in batch.into_iter().zip(answer.responses()) {
                let Some(error) = response.error() else { continue };
                match error.code() {
                    Some(BatchStatementErrorCodeEnum::DuplicateItem) => found.push(at),
                    Some(
                        BatchStatementErrorCodeEnum::ThrottlingError
                        | BatchStatementErrorCodeEnum::ProvisionedThroughputExceeded
                        | BatchStatementErrorCodeEnum::RequestLimitExceeded
                        | BatchStatementErrorCodeEnum::InternalServerError
                        | BatchStatementErrorCodeEnum::TransactionConflict,
                    ) => again.push((at, statement)),
                    Some(BatchStatementErrorCodeEnum::ResourceNotFound) => {
                        return Err(missing("table", &self.name));
                    }
                    code => {
                        let code = code.map_or("?", |code| code.as_str());
                        let message = error.message().unwrap_or("no message");
                        return Err(Error::Unavailable(format!("a row was refused: {code}: {message}")));
                    }
                }
            }
            if again.is_empty() {
                return Ok(found);
            }
            batch = again;
            backoff.wait("BatchExecuteStatement").await?;
        }
    }

    /// Deletes rows, whatever they are.
    pub async fn delete_all(&self, rows: &[Item]) -> Result<()> {
        use aws_sdk_dynamodb::types::{DeleteRequest, WriteRequest};
        let request = |row: &Item| -> Result<WriteRequest> {
            let key: Item = [keys::PK, keys::SK]
                .into_iter()
                .filter_map(|name| Some((name.to_owned(), row.get(name)?.clone())))
                .collect();
            let delete = DeleteRequest::builder().set_key(Some(key)).build();
            let delete = delete.map_err(|e| Error::Corrupt(e.to_string()))?;
            Ok(WriteRequest::builder().delete_request(delete).build())
        };
        let calls: Vec<Vec<_>> = rows
            .chunks(STATEMENTS_MAX)
            .map(|batch| batch.iter().map(request).collect::<Result<_>>())
            .collect::<Result<_>>()?;
        stream::iter(calls.into_iter().map(|batch| self.write_batch(batch)))
            .buffer_unordered(CALLS_INFLIGHT)
            .try_collect()
            .await
    }

    pub async fn write_batch(&self, mut batch: Vec<aws_sdk_dynamodb::types::WriteRequest>) -> Result<()> {
        let mut backoff = self.backoff();
        loop {
            let answer = self
                .dynamodb
                .batch_write_item()
                .request_items(&self.name, std::mem::take(&mut batch))
                .return_consumed_capacity(ReturnConsumedCapacity::Total)
                .send()
                .await
                .map_err(|e| self.unavailable("BatchWriteItem", &e))?;
            count_capacity("BatchWriteItem", "write", answer.consumed_capacity());
            let unprocessed = answer.unprocessed_items.and_then(|mut left| left.remove(&self.name));
            match unprocessed {
                Some(left) if !left.is_empty() => batch = left,
                Some(_) | None => return Ok(()),
            }
            backoff.wait("BatchWriteItem").await?;
        }
    }
}
