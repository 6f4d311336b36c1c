use crate::{Open, Time};
use conveyor_domain::access::quota::Used;
use conveyor_domain::{ApiKeyId, CallerId, Quotas, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::fmt;

words! {
    #[derive(JsonSchema)]
    pub enum KeyKind as json {
        Caller = "caller",
        Operator = "operator",
    }
}

#[skip_serializing_none]
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct ApiKey {
    pub key_id: ApiKeyId,
    pub name: String,
    pub kind: Open<KeyKind>,
    pub caller: Option<CallerId>,
    /// The key's last characters.
    pub hint: String,
    pub created_at: Time,
    pub revoked_at: Option<Time>,
    /// Of its caller.
    pub quotas: Option<Quotas>,
    /// The key itself. It is in the answer that makes it, and nowhere else.
    pub key: Option<String>,
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiKey").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ApiKeys {
    pub keys: Vec<ApiKey>,
    pub next_cursor: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Caller {
    pub caller: CallerId,
    pub quotas: Quotas,
    pub usage: Used,
    /// There are more live jobs than were counted.
    pub more: bool,
}
