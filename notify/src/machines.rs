//! State machines that wait for a run.

use async_trait::async_trait;
use conveyor_domain::delivery::Answer;
use conveyor_domain::{Delivery, EventType};
use serde_json::Value;

/// A service that runs them. Every answer is one of a delivery: `Taken`, `Refused` for what will never be taken, or one that
/// is worth another try.
#[async_trait]
pub trait StateMachines: Send + Sync {
    async fn succeed(&self, token: &str, output: &str) -> Answer;
    async fn fail(&self, token: &str, error: &str, cause: &str) -> Answer;
}

/// Tells a state machine how the run that it waits for has ended.
pub(crate) async fn tell(machines: &dyn StateMachines, token: &str, delivery: &Delivery) -> Answer {
    let error = match delivery.kind {
        EventType::RunCompleted | EventType::Test => return machines.succeed(token, &delivery.body).await,
        EventType::RunFailed => "run_failed",
        EventType::RunStopped => "run_stopped",
        EventType::RunDeleted => "run_deleted",
    };
    let event: Value = serde_json::from_str(&delivery.body).unwrap_or_default();
    let reason = event["failure_reason"].as_str().unwrap_or(error);
    let cause = event["failure_detail"].as_str().unwrap_or_default();
    machines.fail(token, reason, cause).await
}
