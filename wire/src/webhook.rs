use crate::{Cursor, Open, Time};
use conveyor_domain::delivery::webhook::Target;
use conveyor_domain::{DeliveryState, EventId, EventType, KeyId, RunId, WebhookEvent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;
use std::fmt;

/// Where the end of a run is sent.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Webhook {
    /// Where it is sent.
    #[schemars(extend("examples" = ["https://hooks.example.com/conveyor"]))]
    pub url: String,
    /// Whether it is signed with the caller's key.
    pub signature: bool,
    /// Since when and why nothing is sent any more, until it is set again.
    pub disabled: Option<Disabled>,
}

/// Nothing is sent any more, until it is set again.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Disabled {
    pub at: Time,
    /// Why.
    #[schemars(extend("examples" = ["the receiver answered 410 Gone"]))]
    pub reason: String,
}

/// What came of a test.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TestSent {
    /// Whether it was taken.
    pub delivered: bool,
    pub event_id: EventId,
    /// What the receiver answered.
    pub status_code: Option<u16>,
    /// Why it failed.
    pub error: Option<String>,
    /// How long it took, in milliseconds.
    pub elapsed_ms: u64,
}

/// A notification, and what came of it.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Delivery {
    pub event_id: EventId,
    /// What is told: `run.completed`, `run.failed`; only to a state machine: `run.stopped`, `run.deleted`.
    #[schemars(with = "String", extend("enum" = ["run.completed", "run.failed", "run.stopped", "run.deleted"]))]
    pub event_type: Open<EventType>,
    /// Who is notified.
    pub target: Open<Target>,
    pub run_id: RunId,
    /// `pending`: it is tried until it is taken. `delivered`: it was taken. `failed`: it is not tried again unless it
    /// is replayed. `cancelled`: its receiver is gone.
    pub state: Open<DeliveryState>,
    /// Why it was given up.
    #[schemars(extend("examples" = ["the receiver is gone (410)"]))]
    pub reason: Option<String>,
    /// When it happened.
    pub occurred_at: Time,
    /// When it is tried next, unless it is over.
    pub next_attempt_at: Option<Time>,
    /// How often it was tried.
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
#[schemars(extend("examples" = [
    {"delivered": true, "elapsed_ms": 84, "started_at": "2026-01-01T00:00:05.400Z", "status_code": 204}
]))]
pub struct DeliveryAttempt {
    /// When it began.
    pub started_at: Time,
    /// Whether it was taken.
    pub delivered: Option<bool>,
    /// What the receiver answered.
    pub status_code: Option<u16>,
    /// Why it failed.
    pub error: Option<String>,
    /// How long it took, in milliseconds.
    pub elapsed_ms: Option<u64>,
}

/// A page of notifications.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Deliveries {
    pub deliveries: Vec<Delivery>,
    #[schemars(with = "Option<Cursor>")]
    pub next_cursor: Option<String>,
}

/// The keys that sign webhooks. Either may be missing.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [
    {"active": {"created_at": "2026-01-01T00:00:00.000Z", "kid": "01KCX5X9C1D3E5F7G9H1J3K5M7"}, "candidate":
    {"created_at": "2026-01-02T00:00:00.000Z", "kid": "01KCX5YAD2E4F6G8H0J2K4M6N8"}}
]))]
pub struct HmacKeys {
    /// The key that signs.
    pub active: Option<HmacKey>,
    /// The key that may replace it.
    pub candidate: Option<HmacKey>,
}

/// A key that signs webhooks, without its secret.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HmacKey {
    pub kid: KeyId,
    pub created_at: Time,
}

/// A new key, with its secret: no other answer has it.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct HmacKeyCreated {
    pub kid: KeyId,
    /// What signatures are made with: 32 bytes, in base64. It is in no other answer.
    #[schemars(extend("examples" = ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwZ1vQ3xN0b9I="]))]
    pub secret: String,
    pub created_at: Time,
}

impl fmt::Debug for HmacKeyCreated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HmacKeyCreated").field("kid", &self.kid).finish_non_exhaustive()
    }
}

/// The key that signs from now on.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HmacKeyFinalized {
    /// The id of the key that signs.
    pub active_kid: KeyId,
    pub created_at: Time,
}
