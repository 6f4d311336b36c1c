use super::Result;
use super::over::port;
use conveyor_domain::{CallerId, KeyHash, Timestamp};

port! {
    /// API keys, as hashes.
    pub trait KeyStore, decorated by OverKeyStore over store {
        /// Makes the key known as `caller`'s, unless it is already somebody's, and accepted. Returns whose it is.
        async fn put_key(&self, key: KeyHash, caller: CallerId, now: Timestamp) -> Result<CallerId>;

        /// Stops accepting a key; one that is not there, or revoked, is left as it is. A revoked key that is put again is
        /// the same caller's again.
        async fn revoke_key(&self, key: KeyHash, now: Timestamp) -> Result<()>;

        /// Every key that is accepted.
        async fn accepted_keys(&self) -> Result<Vec<KeyHash>>;

        /// Whose key it is; `None` if it is nobody's, or revoked.
        async fn caller_of(&self, key: KeyHash) -> Result<Option<CallerId>>;
    }
}
