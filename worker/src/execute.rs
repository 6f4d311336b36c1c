//! One claimed task: ask the gateway, and decide from its answer how the task ends.

use crate::Worker;
use crate::gateway::{GatewayAnswer, GatewayRequest};
use crate::runs::RunContext;
use bytes::Bytes;
use conveyor_domain::lifecycle::Command;
use conveyor_domain::params::{self, Format};
use conveyor_domain::task::Outcome;
use conveyor_domain::{AccountFault, FailureClass, Problem};
use conveyor_store::port::ClaimedTask;
use futures::FutureExt;
use std::panic::AssertUnwindSafe;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How a task ended, before its body has a place.
#[derive(Debug)]
pub enum End {
    Success { body: Bytes, format: Format, http_status: u16 },
    Settled(Outcome),
}

/// Calls the gateway. A shutdown that cannot wait any longer releases the task instead.
pub async fn execute(
    worker: &Worker,
    run: &RunContext,
    task: &ClaimedTask,
    abort: &CancellationToken,
) -> End {
    let merged = params::merge(&run.job.spec.params, &task.input.params);
    let format = Format::of(&merged);
    let request = GatewayRequest {
        url: task.input.url.clone(),
        method: task.input.method,
        body: task.input.body.clone(),
        params: merged,
        credential: run.credential.clone(),
    };
    let started = Instant::now();
    // A defect on the way of one task must not take the run with it: it is a failure like any other, tried again and counted.
    let call = AssertUnwindSafe(worker.gateway.call(request)).catch_unwind();
    let answer = tokio::select! {
        answer = call => answer.unwrap_or_else(|_| defect()),
        () = abort.cancelled() => return End::Settled(Outcome::Release),
    };
    let label = match &answer {
        GatewayAnswer::Success { .. } => "success",
        GatewayAnswer::Failure { class, .. } => class.as_str(),
        GatewayAnswer::Account { fault, .. } => fault.as_str(),
    };
    metrics::histogram!("conveyor_gateway_seconds", "outcome" => label)
        .record(started.elapsed().as_secs_f64());
    match answer {
        GatewayAnswer::Success { http_status, body } => End::Success { body, format, http_status },
        GatewayAnswer::Account { fault, detail } => {
            fail_run(worker, run, fault, detail).await;
            End::Settled(Outcome::Release)
        }
        GatewayAnswer::Failure { class, retry, retry_after, problem } => {
            let now = worker.clock.now();
            let due = retry
                .then(|| worker.config.retry.next_attempt(task.attempt, retry_after, now, &worker.entropy))
                .flatten();
            End::Settled(match due {
                Some(not_before) => Outcome::Retry { problem, not_before },
                None => Outcome::Failed { class, problem },
            })
        }
    }
}

fn defect() -> GatewayAnswer {
    let problem = Problem::new(500, "internal", "The task met a defect").with_detail("The log says more.");
    GatewayAnswer::Failure { class: FailureClass::Other, retry: true, retry_after: None, problem }
}

/// The account cannot pay for more: the run ends here, and its tasks keep their attempts.
async fn fail_run(worker: &Worker, run: &RunContext, reason: AccountFault, detail: String) {
    let command = Command::FailRun { reason, detail };
    match worker.backend.store.apply(run.key.job, command, worker.clock.now()).await {
        Ok(view) => {
            tracing::info!(run = %run.key.run, status = view.latest.run.status.as_str(), reason = reason.as_str(), "account-level answer of the gateway");
        }
        // The task is released; its next attempt meets the same answer and tries again.
        Err(error) => tracing::warn!(run = %run.key.run, %error, "the run could not be failed"),
    }
}

/// The end of a task that has taken worker after worker down with it.
pub fn abandoned(claims_max: u32) -> End {
    let problem = Problem::new(500, "task_abandoned", "The task was given up").with_detail(format!(
        "It was started {claims_max} times and never reached an end; each time the worker stopped first."
    ));
    End::Settled(Outcome::Failed { class: FailureClass::Other, problem })
}
