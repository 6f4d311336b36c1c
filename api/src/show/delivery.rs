use super::Time;
use conveyor_domain::delivery::Attempt;
use conveyor_domain::{Delivery, Record};
use conveyor_wire as wire;

/// `whole`: with what is sent.
pub(crate) fn delivery(record: &Record, delivery: Delivery, whole: bool) -> wire::Delivery {
    wire::Delivery {
        event_id: delivery.event,
        event_type: delivery.kind.into(),
        target: delivery.target.into(),
        run_id: delivery.run,
        state: delivery.state.into(),
        next_attempt_at: record.due.map(Time),
        reason: delivery.reason,
        occurred_at: Time(delivery.occurred),
        attempts_made: delivery.attempts_made,
        attempts: delivery.attempts.iter().map(attempt).collect(),
        event: whole.then(|| serde_json::from_str(&delivery.body).unwrap_or_default()),
    }
}

fn attempt(Attempt { started, ended }: &Attempt) -> wire::DeliveryAttempt {
    let ended = ended.as_ref();
    wire::DeliveryAttempt {
        started_at: Time(*started),
        delivered: ended.map(|end| end.error.is_none()),
        status_code: ended.and_then(|end| end.status_code),
        error: ended.and_then(|end| end.error.clone()),
        elapsed_ms: ended.map(|end| end.elapsed_ms),
    }
}
