//! Writes: single rows under a condition, and several rows in one transaction.

use super::Table;
use super::backoff::Backoff;
use super::discovery;
use super::item::{Item, number};
use super::keys::{RowKey, TTL};
use crate::client::count_capacity;
use aws_sdk_dynamodb::error::{BuildError, ProvideErrorMetadata};
use aws_sdk_dynamodb::types::{
    AttributeValue, CancellationReason, ConditionCheck, Delete, Put, ReturnConsumedCapacity,
    ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};
use conveyor_store::{Error, Result};
use std::collections::HashMap;

/// A transaction was not carried out because of these conditions: by the place of the write, the row as it is, if any.
#[derive(Debug)]
pub struct Unmet {
    unmet: Vec<(usize, Option<Item>)>,
    /// How many writes there were.
    writes: usize,
}

impl Unmet {
    /// What stood in the way of this write.
    pub fn at(&self, place: usize) -> Option<Option<&Item>> {
        self.unmet.iter().find(|(at, _)| *at == place).map(|(_, item)| item.as_ref())
    }

    /// Whether the last write was in the way.
    pub fn is_last(&self) -> bool {
        self.unmet.iter().any(|(at, _)| at + 1 == self.writes)
    }
}

/// A condition on the row that a write is about to change.
#[derive(Clone, Debug)]
pub struct Condition {
    pub expression: String,
    pub values: Vec<(&'static str, AttributeValue)>,
}

impl Condition {
    pub fn absent() -> Condition {
        Condition { expression: "attribute_not_exists(pk)".to_owned(), values: Vec::new() }
    }

    pub fn present() -> Condition {
        Condition { expression: "attribute_exists(pk)".to_owned(), values: Vec::new() }
    }

    pub fn version(version: u64) -> Condition {
        Condition { expression: "v = :seen".to_owned(), values: vec![(":seen", number(version))] }
    }
}

/// An update expression with its values.
#[derive(Clone, Debug)]
pub struct Expression {
    pub text: String,
    pub values: Vec<(&'static str, AttributeValue)>,
}

/// How an expression spells the time to live, whose own name is a word of DynamoDB's language.
pub const TTL_NAME: &str = "#ttl";

impl Expression {
    fn names(&self) -> Option<HashMap<String, String>> {
        let ttl = || HashMap::from([(TTL_NAME.to_owned(), TTL.to_owned())]);
        self.text.contains(TTL_NAME).then(ttl)
    }
}

fn built<T>(built: std::result::Result<T, BuildError>) -> Result<T> {
    built.map_err(|e| Error::Corrupt(e.to_string()))
}

impl Table {
    pub fn backoff(&self) -> Backoff<'_> {
        Backoff::new(&self.entropy)
    }

    pub fn put(&self, item: Item, condition: Option<Condition>) -> Result<TransactWriteItem> {
        let mut put = Put::builder().table_name(&self.name).set_item(Some(item));
        if let Some(condition) = condition {
            put = put
                .condition_expression(condition.expression)
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
            for (name, value) in condition.values {
                put = put.expression_attribute_values(name, value);
            }
        }
        Ok(TransactWriteItem::builder().put(built(put.build())?).build())
    }

    pub fn check(&self, key: &RowKey, condition: Condition) -> Result<TransactWriteItem> {
        let mut check = ConditionCheck::builder()
            .table_name(&self.name)
            .set_key(Some(key.attributes()))
            .condition_expression(condition.expression)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        for (name, value) in condition.values {
            check = check.expression_attribute_values(name, value);
        }
        Ok(TransactWriteItem::builder().condition_check(built(check.build())?).build())
    }

    pub fn delete(&self, key: &RowKey, condition: Option<Condition>) -> Result<TransactWriteItem> {
        let mut delete = Delete::builder().table_name(&self.name).set_key(Some(key.attributes()));
        if let Some(condition) = condition {
            delete = delete.condition_expression(condition.expression);
            for (name, value) in condition.values {
                delete = delete.expression_attribute_values(name, value);
            }
        }
        Ok(TransactWriteItem::builder().delete(built(delete.build())?).build())
    }

    pub fn update(
        &self,
        key: &RowKey,
        expression: Expression,
        condition: Option<Condition>,
    ) -> Result<TransactWriteItem> {
        let mut update = Update::builder()
            .table_name(&self.name)
            .set_key(Some(key.attributes()))
            .set_expression_attribute_names(expression.names())
            .update_expression(expression.text)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        for (name, value) in expression.values {
            update = update.expression_attribute_values(name, value);
        }
        if let Some(condition) = condition {
            update = update.condition_expression(condition.expression);
            for (name, value) in condition.values {
                update = update.expression_attribute_values(name, value);
            }
        }
        Ok(TransactWriteItem::builder().update(built(update.build())?).build())
    }

    fn token(&self) -> String {
        format!("{:016x}{:016x}", self.entropy.next_u64(), self.entropy.next_u64())
    }

    /// All of these writes or none. One that loses against another transaction is tried again; one whose conditions do not
    /// hold says which. A call whose answer was lost is repeated under the same token, so it is carried out once, and a
    /// refusal is never that of one's own earlier success.
    pub async fn transact(
        &self,
        mut writes: Vec<TransactWriteItem>,
    ) -> Result<std::result::Result<(), Unmet>> {
        let mut backoff = self.backoff();
        let mut token = self.token();
        self.stamp_all(&mut writes);
        loop {
            let answer = self
                .dynamodb
                .transact_write_items()
                .client_request_token(&token)
                .set_transact_items(Some(writes.clone()))
                .return_consumed_capacity(ReturnConsumedCapacity::Total)
                .send()
                .await;
            let error = match answer {
                Ok(answer) => {
                    count_capacity("TransactWriteItems", "write", answer.consumed_capacity());
                    return Ok(Ok(()));
                }
                Err(error) => error,
            };
            let Some(refused) = error.as_service_error() else {
                return Err(self.unavailable("TransactWriteItems", &error));
            };
            if let aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError::TransactionCanceledException(canceled) = refused {
                let reasons = canceled.cancellation_reasons();
                if let Some(reason) = reasons.iter().find(|r| !passes(r) && !is_unmet(r)) {
                    let (code, message) = (reason.code().unwrap_or("?"), reason.message().unwrap_or("?"));
                    return Err(Error::Corrupt(format!("a write was refused: {code}: {message}")));
                }
                let unmet: Vec<_> = reasons
                    .iter()
                    .enumerate()
                    .filter(|(_, reason)| is_unmet(reason))
                    .map(|(place, reason)| (place, reason.item().filter(|item| !item.is_empty()).cloned()))
                    .collect();
                if !unmet.is_empty() {
                    return Ok(Err(Unmet { unmet, writes: reasons.len() }));
                }
                // It did not happen: what is sent next is another one. One that is in progress is the same one, though.
                token = self.token();
                self.stamp_all(&mut writes);
            } else if is_invalid(refused.code()) {
                // Sending it again would not help.
                return Err(Error::Corrupt(format!("a transaction was refused: {error:?}")));
            } else if !refused.is_transaction_in_progress_exception() {
                return Err(self.unavailable("TransactWriteItems", &error));
            }
            backoff.wait("TransactWriteItems").await?;
        }
    }

    /// A run is found by when it is written, which may be long after that was decided.
    fn stamp(&self, item: &mut Item) {
        if let Some(now) = self.latest.now() {
            discovery::stamp(item, now);
        }
    }

    /// Not between two sends of one transaction, which have to be the same.
    fn stamp_all(&self, writes: &mut [TransactWriteItem]) {
        writes.iter_mut().filter_map(|write| write.put.as_mut()).for_each(|put| self.stamp(&mut put.item));
    }

    /// Changes a row, whatever is there; makes it if there is none.
    pub async fn update_always(&self, key: &RowKey, expression: Expression) -> Result<()> {
        let update = self
            .dynamodb
            .update_item()
            .table_name(&self.name)
            .set_key(Some(key.attributes()))
            .set_expression_attribute_names(expression.names())
            .update_expression(expression.text)
            .set_expression_attribute_values(Some(
                expression.values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            ))
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        let answer = update.send().await.map_err(|e| self.unavailable("UpdateItem", &e))?;
        count_capacity("UpdateItem", "write", answer.consumed_capacity());
        Ok(())
    }

    /// Writes a row if it still has the version that was read; says whether it did. False may also be one's own write, whose
    /// answer was lost: whoever asks must be able to look again and find it done.
    pub async fn put_if(&self, mut item: Item, condition: Condition) -> Result<bool> {
        let mut put = self
            .dynamodb
            .put_item()
            .table_name(&self.name)
            .condition_expression(condition.expression)
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        for (name, value) in condition.values {
            put = put.expression_attribute_values(name, value);
        }
        let mut backoff = self.backoff();
        loop {
            self.stamp(&mut item);
            let error = match put.clone().set_item(Some(item.clone())).send().await {
                Ok(answer) => {
                    count_capacity("PutItem", "write", answer.consumed_capacity());
                    return Ok(true);
                }
                Err(error) => error,
            };
            match error.as_service_error() {
                Some(refused) if refused.is_conditional_check_failed_exception() => return Ok(false),
                // A transaction has the row at this moment.
                Some(refused) if refused.is_transaction_conflict_exception() => {
                    backoff.wait("PutItem").await?;
                }
                _ => return Err(self.unavailable("PutItem", &error)),
            }
        }
    }
}

/// The call itself is wrong, whenever it is made.
fn is_invalid(code: Option<&str>) -> bool {
    code == Some("ValidationException")
}

fn is_unmet(reason: &CancellationReason) -> bool {
    reason.code() == Some("ConditionalCheckFailed")
}

/// Reasons that are gone the next time, and those of writes that had none.
fn passes(reason: &CancellationReason) -> bool {
    matches!(
        reason.code(),
        None | Some("None" | "TransactionConflict" | "ProvisionedThroughputExceeded" | "ThrottlingError")
    )
}
