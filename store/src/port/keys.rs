use super::Result;
use async_trait::async_trait;
use conveyor_domain::seal::KeyHash;
use conveyor_domain::{CallerId, Timestamp};

/// API keys, as hashes.
#[async_trait]
pub trait KeyStore: Send + Sync {
    /// Makes the key known as `caller`'s, unless it is already somebody's. Returns whose it is.
    async fn put_key(&self, key: KeyHash, caller: CallerId, now: Timestamp) -> Result<CallerId>;

    async fn caller_of(&self, key: KeyHash) -> Result<Option<CallerId>>;
}
