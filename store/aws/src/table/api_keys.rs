//! API keys, as hashes (SPEC 5.3, 6.24). Earlier versions kept all of them in one partition: such a row counts for as long as
//! there is none in the new place, and is copied there by the first request that uses it. The new row decides.

use super::Table;
use super::item::{Draft, Item, Row, number, text};
use super::jobs::READS_INFLIGHT;
use super::keys::{self, RowKey};
use super::read::Range;
use super::transact::{Condition, Expression};
use async_trait::async_trait;
use conveyor_domain::{CallerId, KeyHash, Timestamp};
use conveyor_store::Result;
use conveyor_store::port::KeyStore;
use futures::{StreamExt, TryStreamExt, stream};
use std::collections::HashMap;

impl Table {
    /// Says whose key it is, unless the row says so already, and whether it is accepted.
    async fn write_key(&self, place: &RowKey, owner: Owner, change: &str, now: Timestamp) -> Result<()> {
        let whose = "SET cal = if_not_exists(cal, :caller), ca = if_not_exists(ca, :created)";
        let mut values =
            vec![(":caller", text(owner.caller.to_string())), (":created", number(owner.created.0))];
        if change.contains(":now") {
            values.push((":now", number(now.0)));
        }
        self.update_always(place, Expression { text: format!("{whose}{change}"), values }).await
    }

    /// Makes a row of the new layout of one of the old. False if there is one by now.
    async fn copy_key(&self, key: KeyHash, owner: Owner) -> Result<bool> {
        let copy = Draft::at(&keys::api_key(key))
            .set("cal", text(owner.caller.to_string()))
            .set("ca", number(owner.created.0));
        self.put_if(copy.item(), Condition::absent()).await
    }
}

#[async_trait]
impl KeyStore for Table {
    async fn put_key(&self, key: KeyHash, caller: CallerId, now: Timestamp) -> Result<CallerId> {
        let place = keys::api_key(key);
        let old = self.get(&keys::old_api_key(key)).await?;
        let owner = old.as_ref().map(Owner::decode).transpose()?;
        let owner = owner.unwrap_or(Owner { caller, created: now });
        self.write_key(&place, owner, " REMOVE ra", now).await?;
        // Written once and never changed.
        let written = self.get(&place).await?;
        Ok(written.as_ref().map(Owner::decode).transpose()?.unwrap_or(owner).caller)
    }

    async fn revoke_key(&self, key: KeyHash, now: Timestamp) -> Result<()> {
        let (place, old_place) = (keys::api_key(key), keys::old_api_key(key));
        let (new, old) = (self.get(&place).await?, self.get(&old_place).await?);
        let Some(known) = new.as_ref().or(old.as_ref()) else { return Ok(()) };
        let owner = Owner::decode(known)?;
        // The new place first: it decides, and with a row there nobody copies the old one. The old place is for processes of
        // earlier versions.
        let revoke = ", ra = if_not_exists(ra, :now)";
        if !new.as_ref().is_some_and(is_revoked) {
            self.write_key(&place, owner, revoke, now).await?;
        }
        if old.as_ref().is_some_and(|old| !is_revoked(old)) {
            self.write_key(&old_place, owner, revoke, now).await?;
        }
        Ok(())
    }

    async fn accepted_keys(&self) -> Result<Vec<KeyHash>> {
        let list = |partition: String| async move { self.all(&Range::everything(partition)).await };
        let new = stream::iter(keys::api_key_partitions().map(list)).buffered(READS_INFLIGHT);
        let new: Vec<Vec<Item>> = new.try_collect().await?;
        let old = self.all(&Range::everything(keys::OLD_KEYS_PARTITION.to_owned())).await?;
        let mut accepted = HashMap::new();
        for item in new.iter().flatten().chain(&old) {
            accepted.entry(Row(item).parsed::<KeyHash>(keys::SK)?).or_insert(!is_revoked(item));
        }
        Ok(accepted.into_iter().filter(|(_, accepted)| *accepted).map(|(key, _)| key).collect())
    }

    async fn caller_of(&self, key: KeyHash) -> Result<Option<CallerId>> {
        let place = keys::api_key(key);
        if let Some(new) = self.get(&place).await? {
            return caller_in(&new);
        }
        let Some(old) = self.get(&keys::old_api_key(key)).await?.filter(|old| !is_revoked(old)) else {
            return Ok(None);
        };
        let owner = Owner::decode(&old)?;
        match self.copy_key(key, owner).await {
            Ok(true) => Ok(Some(owner.caller)),
            // Copied by somebody else, or revoked.
            Ok(false) => self.get(&place).await?.as_ref().map_or(Ok(None), caller_in),
            Err(error) => {
                tracing::warn!(%error, "an API key of an earlier version could not be copied; its old row is used");
                Ok(Some(owner.caller))
            }
        }
    }
}

/// Whose key a row is, and since when.
#[derive(Clone, Copy, Debug)]
struct Owner {
    caller: CallerId,
    created: Timestamp,
}

impl Owner {
    fn decode(item: &Item) -> Result<Owner> {
        Ok(Owner { caller: Row(item).parsed("cal")?, created: Timestamp(Row(item).number("ca")?) })
    }
}

fn caller_in(item: &Item) -> Result<Option<CallerId>> {
    if is_revoked(item) { Ok(None) } else { Owner::decode(item).map(|owner| Some(owner.caller)) }
}

fn is_revoked(item: &Item) -> bool {
    item.contains_key("ra")
}
