use crate::{Cursor, Open, Time};
use conveyor_domain::access::quota::Used;
use conveyor_domain::{ApiKeyId, CallerId, Quotas, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::fmt;

words! {
    /// `caller`: it opens what belongs to its caller. `operator`: it opens `/v1/admin`.
    #[derive(JsonSchema)]
    pub enum KeyKind as json {
        Caller = "caller",
        Operator = "operator",
    }
}

/// A key that an operator made.
#[skip_serializing_none]
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct ApiKey {
    pub key_id: ApiKeyId,
    /// A name for people.
    #[schemars(extend("examples" = ["crawler"]))]
    pub name: String,
    /// Whom the key is for.
    pub kind: Open<KeyKind>,
    pub caller: Option<CallerId>,
    /// The key's last characters.
    #[schemars(extend("examples" = ["a918"]))]
    pub hint: String,
    pub created_at: Time,
    /// When it was revoked.
    pub revoked_at: Option<Time>,
    /// Of its caller.
    pub quotas: Option<Quotas>,
    /// The key itself. It is in the answer that makes it, and nowhere else.
    #[schemars(extend("examples" = ["cvk_8c6976e5b5410415bde908bd4dee15dfb167a9c873fc4bb8a81f6f2ab448a918"]))]
    pub key: Option<String>,
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiKey").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

/// A page of keys.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ApiKeys {
    pub keys: Vec<ApiKey>,
    #[schemars(with = "Option<Cursor>")]
    pub next_cursor: Option<String>,
}

/// What a caller may have, and has.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Caller {
    pub caller: CallerId,
    pub quotas: Quotas,
    pub usage: Used,
    /// There are more live jobs than were counted.
    pub more: bool,
}
