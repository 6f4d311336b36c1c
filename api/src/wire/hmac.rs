//! Signing keys as their owner sees them. A secret is in one answer, once.

use super::Time;
use conveyor_domain::{KeyId, SigningKey, SigningKeys};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HmacKeysJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    active: Option<HmacKeyJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    candidate: Option<HmacKeyJson>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HmacKeyJson {
    kid: KeyId,
    created_at: Time,
}

impl From<&SigningKey> for HmacKeyJson {
    fn from(key: &SigningKey) -> HmacKeyJson {
        HmacKeyJson { kid: key.kid, created_at: Time(key.created) }
    }
}

impl From<&SigningKeys> for HmacKeysJson {
    fn from(keys: &SigningKeys) -> HmacKeysJson {
        HmacKeysJson {
            active: keys.active.as_ref().map(HmacKeyJson::from),
            candidate: keys.candidate.as_ref().map(HmacKeyJson::from),
        }
    }
}

/// The only answer that has the secret.
#[derive(Serialize, JsonSchema)]
pub(crate) struct HmacKeyCreatedJson {
    pub kid: KeyId,
    pub secret: String,
    pub created_at: Time,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HmacKeyFinalizedJson {
    pub active_kid: KeyId,
    pub created_at: Time,
}
