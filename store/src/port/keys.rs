use super::Result;
use async_trait::async_trait;
use conveyor_domain::seal::KeyHash;
use conveyor_domain::{CallerId, Timestamp};

/// API keys, as hashes.
#[async_trait]
pub trait KeyStore: Send + Sync {
    /// Makes the key known as `caller`'s, unless it is already somebody's, and accepted. Returns whose it is.
    async fn put_key(&self, key: KeyHash, caller: CallerId, now: Timestamp) -> Result<CallerId>;

    /// Stops accepting every key but these. A revoked key that is put again is the same caller's again.
    async fn revoke_all_but(&self, accepted: Vec<KeyHash>, now: Timestamp) -> Result<()>;

    /// Whose key it is; `None` if it is nobody's, or revoked.
    async fn caller_of(&self, key: KeyHash) -> Result<Option<CallerId>>;
}
