//! Notifications as their caller sees them.

use super::Time;
use conveyor_domain::delivery::Attempt;
use conveyor_domain::{Delivery, EventId, Record, RunId, WebhookEvent};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DeliveryJson {
    event_id: EventId,
    #[schemars(extend("enum" = ["run.completed", "run.failed", "run.stopped", "run.deleted"]))]
    event_type: &'static str,
    #[schemars(extend("enum" = ["webhook", "step_functions"]))]
    target: &'static str,
    run_id: RunId,
    #[schemars(extend("enum" = ["pending", "delivered", "failed", "cancelled"]))]
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    occurred_at: Time,
    /// When it is tried next, unless it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt_at: Option<Time>,
    attempts_made: u32,
    /// The latest, oldest first.
    attempts: Vec<AttemptJson>,
    /// What is sent; where one is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<WebhookEvent<'static>>")]
    event: Option<Value>,
}

/// Without an outcome it is under way, or nobody saw its end.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DeliveryAttempt")]
pub(crate) struct AttemptJson {
    started_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    delivered: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_code: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    elapsed_ms: Option<u64>,
}

impl From<&Attempt> for AttemptJson {
    fn from(Attempt { started, ended }: &Attempt) -> AttemptJson {
        let ended = ended.as_ref();
        AttemptJson {
            started_at: Time(*started),
            delivered: ended.map(|end| end.error.is_none()),
            status_code: ended.and_then(|end| end.status_code),
            error: ended.and_then(|end| end.error.clone()),
            elapsed_ms: ended.map(|end| end.elapsed_ms),
        }
    }
}

impl DeliveryJson {
    /// `whole`: with what is sent.
    pub fn new(record: &Record, delivery: Delivery, whole: bool) -> DeliveryJson {
        DeliveryJson {
            event_id: delivery.event,
            event_type: delivery.kind.as_str(),
            target: delivery.target.as_str(),
            run_id: delivery.run,
            state: delivery.state.as_str(),
            next_attempt_at: record.due.map(Time),
            reason: delivery.reason,
            occurred_at: Time(delivery.occurred),
            attempts_made: delivery.attempts_made,
            attempts: delivery.attempts.iter().map(AttemptJson::from).collect(),
            event: whole.then(|| serde_json::from_str(&delivery.body).unwrap_or_default()),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DeliveriesJson {
    pub deliveries: Vec<DeliveryJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
