//! API keys that operators make (SPEC 6.24). The key itself is shown once and kept nowhere; what is kept is its hash.

use crate::{ApiKeyId, CallerId, Entropy, KeyHash, RecordKey, RecordKind, Timestamp};
use serde::{Deserialize, Serialize};

const RANDOM_BYTES: usize = 32;
const HINT_CHARS: usize = 4;
/// Who owns the records of keys, and those that find operator keys by their hash.
const KEYS: &str = "all";
const OPERATORS: &str = "operators";

/// What a key opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Opens {
    /// Everything of this caller.
    Caller(CallerId),
    /// `/v1/admin`.
    Operator,
}

/// The record of a key. A field that is added has a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKey {
    pub name: String,
    pub opens: Opens,
    pub hash: KeyHash,
    /// Its last characters, for people to tell keys apart.
    pub hint: String,
    pub created: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Timestamp>,
}

/// What leads from the hash of an operator key to its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorHash {
    pub key: ApiKeyId,
}

impl ApiKey {
    /// A new key, and what is kept of it.
    pub fn make(name: String, opens: Opens, now: Timestamp, entropy: &Entropy) -> (String, ApiKey) {
        let mut bytes = [0; RANDOM_BYTES];
        entropy.fill(&mut bytes);
        let prefix = match opens {
            Opens::Caller(_) => "cvk_",
            Opens::Operator => "cvo_",
        };
        let key = bytes.iter().fold(prefix.to_owned(), |key, byte| key + &format!("{byte:02x}"));
        let hint = key[key.len() - HINT_CHARS..].to_owned();
        let kept = ApiKey { name, opens, hash: KeyHash::of(&key), hint, created: now, revoked: None };
        (key, kept)
    }

    pub fn is_accepted(&self) -> bool {
        self.revoked.is_none()
    }
}

pub fn owner() -> &'static str {
    KEYS
}

pub fn record_key(id: ApiKeyId) -> RecordKey {
    RecordKey::new(RecordKind::ApiKey, KEYS, id)
}

pub fn operator_key(hash: KeyHash) -> RecordKey {
    RecordKey::new(RecordKind::ApiKey, OPERATORS, hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_says_what_it_opens_and_what_is_kept_does_not_hold_it() {
        let entropy = Entropy::from_number(1);
        let caller = CallerId::from_bytes([1; 16]);
        for (opens, prefix) in [(Opens::Caller(caller), "cvk_"), (Opens::Operator, "cvo_")] {
            let (key, kept) = ApiKey::make("a".into(), opens, Timestamp(5), &entropy);
            assert!(key.starts_with(prefix) && key.len() == 4 + 64 && key.ends_with(&kept.hint));
            let text = serde_json::to_string(&kept).unwrap();
            assert!(!text.contains(&key[4..]));
            assert_eq!(serde_json::from_str::<ApiKey>(&text).unwrap(), kept);
            assert_eq!(kept.hash, KeyHash::of(&key));
            assert!(operator_key(kept.hash).id.len() == 64);
        }
    }
}
