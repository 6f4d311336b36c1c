use crate::{Open, Time};
use conveyor_domain::delivery::webhook::Target;
use conveyor_domain::{DeliveryState, EventId, EventType, KeyId, RunId, WebhookEvent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;
use std::fmt;

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Webhook {
    pub url: String,
    pub signature: bool,
    pub disabled: Option<Disabled>,
}

/// Nothing is sent any more, until it is set anew.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Disabled {
    pub at: Time,
    pub reason: String,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TestSent {
    pub delivered: bool,
    pub event_id: EventId,
    pub status_code: Option<u16>,
    pub error: Option<String>,
    pub elapsed_ms: u64,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Delivery {
    pub event_id: EventId,
    #[schemars(with = "String", extend("enum" = ["run.completed", "run.failed", "run.stopped", "run.deleted"]))]
    pub event_type: Open<EventType>,
    pub target: Open<Target>,
    pub run_id: RunId,
    pub state: Open<DeliveryState>,
    pub reason: Option<String>,
    pub occurred_at: Time,
    /// When it is tried next, unless it is over.
    pub next_attempt_at: Option<Time>,
    pub attempts_made: u32,
    /// The latest, oldest first.
    pub attempts: Vec<DeliveryAttempt>,
    /// What is sent; where one is asked for.
    #[schemars(with = "Option<WebhookEvent<'static>>")]
    pub event: Option<Value>,
}

/// Without an outcome it is under way, or nobody saw its end.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DeliveryAttempt {
    pub started_at: Time,
    pub delivered: Option<bool>,
    pub status_code: Option<u16>,
    pub error: Option<String>,
    pub elapsed_ms: Option<u64>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Deliveries {
    pub deliveries: Vec<Delivery>,
    pub next_cursor: Option<String>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HmacKeys {
    pub active: Option<HmacKey>,
    pub candidate: Option<HmacKey>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HmacKey {
    pub kid: KeyId,
    pub created_at: Time,
}

/// The only answer that has the secret.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct HmacKeyCreated {
    pub kid: KeyId,
    pub secret: String,
    pub created_at: Time,
}

impl fmt::Debug for HmacKeyCreated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HmacKeyCreated").field("kid", &self.kid).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HmacKeyFinalized {
    pub active_kid: KeyId,
    pub created_at: Time,
}
