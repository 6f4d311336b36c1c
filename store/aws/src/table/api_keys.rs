//! API keys, as hashes.

use super::item::{Item, Row, number, text};
use super::read::Range;
use super::{Table, keys};
use crate::client::count_capacity;
use crate::error::unavailable;
use async_trait::async_trait;
use aws_sdk_dynamodb::types::{ReturnConsumedCapacity, ReturnValue};
use conveyor_domain::seal::KeyHash;
use conveyor_domain::{CallerId, Timestamp};
use conveyor_store::Result;
use conveyor_store::port::KeyStore;

#[async_trait]
impl KeyStore for Table {
    async fn put_key(&self, key: KeyHash, caller: CallerId, now: Timestamp) -> Result<CallerId> {
        let answer = self
            .dynamodb
            .update_item()
            .table_name(&self.name)
            .set_key(Some(keys::api_key(key).attributes()))
            .update_expression(
                "SET cal = if_not_exists(cal, :caller), ca = if_not_exists(ca, :now) REMOVE ra",
            )
            .expression_attribute_values(":caller", text(caller.to_string()))
            .expression_attribute_values(":now", number(now.0))
            .return_values(ReturnValue::AllNew)
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await
            .map_err(|e| unavailable("UpdateItem", &e))?;
        count_capacity("UpdateItem", "write", answer.consumed_capacity());
        Row(&answer.attributes.unwrap_or_default()).parsed("cal")
    }

    async fn revoke_key(&self, key: KeyHash, now: Timestamp) -> Result<()> {
        let place = keys::api_key(key);
        // Written whole, over what was read: of a key only its being revoked changes, and who revokes it meanwhile does the same.
        match self.get(&place).await?.filter(|item| !is_revoked(item)) {
            Some(mut item) => {
                item.insert("ra".to_owned(), number(now.0));
                self.put_always(item).await
            }
            None => Ok(()),
        }
    }

    async fn accepted_keys(&self) -> Result<Vec<KeyHash>> {
        let items = self.all(&Range::everything(keys::KEYS_PARTITION.to_owned())).await?;
        let accepted = items.iter().filter(|item| !is_revoked(item));
        accepted.map(|item| Row(item).parsed(keys::SK)).collect()
    }

    async fn caller_of(&self, key: KeyHash) -> Result<Option<CallerId>> {
        let item = self.get(&keys::api_key(key)).await?.filter(|item| !is_revoked(item));
        item.map(|item| Row(&item).parsed("cal")).transpose()
    }
}

fn is_revoked(item: &Item) -> bool {
    item.contains_key("ra")
}
