//! One claimed task: ask the gateway, and decide from its answer how the task ends.

use crate::Worker;
use crate::context::RunContext;
use crate::gateway::{self, GatewayAnswer, GatewayRequest};
use crate::parked::Ticket;
use bytes::Bytes;
use conveyor_domain::{
    AccountFault, Command, FailureClass, Format, Outcome, Problem, Spend, TaskInput, damage, headers, limits,
    params,
};
use conveyor_store::port::ClaimedTask;
use futures::FutureExt;
use std::panic::AssertUnwindSafe;
use std::time::Duration;
use tokio::time::Instant;

/// How a task ended, before its body has a place.
#[derive(Debug)]
pub enum End {
    Success {
        body: Bytes,
        format: Format,
        http_status: u16,
    },
    Settled(Outcome),
    /// It could not start after all: its message comes back after this.
    Bounced(Duration),
    /// It could not start yet: its message waits in this worker.
    Parked(Ticket),
}

/// The end of a task, and what it says about the other side.
#[derive(Debug)]
pub struct Executed {
    pub end: End,
    pub spend: Spend,
    pub took: Duration,
    /// The other side is overloaded or unreachable, and how that was seen.
    pub overloaded: Option<String>,
    pub retry_after: Option<Duration>,
}

/// Calls the gateway.
pub async fn execute(worker: &Worker, run: &RunContext, task: &ClaimedTask) -> Executed {
    let merged = params::merge(&run.job.spec.params, &task.input.params);
    // What a rerun asks for wins over both.
    let mut merged = params::merge(&merged, &run.overrides);
    if headers::open(&worker.secret, &run.key.job, &mut merged).is_err() {
        // As with a forwarded key: whoever starts a worker with the right secret goes on with it.
        tracing::error!(job = %run.key.job, task = %task.task, "custom headers do not open with the present secret; the task waits");
        let end = End::Bounced(limits::BOUNCE_MAX);
        return Executed {
            end,
            spend: Spend::default(),
            took: Duration::ZERO,
            overloaded: None,
            retry_after: None,
        };
    }
    let format = Format::of(&merged);
    let request = GatewayRequest {
        caller: run.job.caller,
        url: task.input.url.clone(),
        method: task.input.method,
        body: task.input.body.clone(),
        params: merged,
        credential: run.credential.clone(),
    };
    let started = Instant::now();
    let answer = call(worker, request).await;
    let took = started.elapsed();
    metrics::histogram!("conveyor_gateway_seconds", "outcome" => label(&answer)).record(took.as_secs_f64());
    let (mut overloaded, mut asked_for, mut spend) = (None, None, Spend::default());
    let end = match answer {
        GatewayAnswer::Success { http_status, body, spend: charged } => {
            spend = charged;
            End::Success { body, format, http_status }
        }
        GatewayAnswer::Account { fault, detail } => {
            fail_run(worker, run, fault, detail).await;
            released()
        }
        GatewayAnswer::Failure { class, retry, retry_after, problem, spend: charged } => {
            spend = charged;
            // What says so itself, and nothing else: a list of dead pages is not a dead gateway.
            let unwell = matches!(class, FailureClass::RateLimited | FailureClass::GatewayError);
            let overload = unwell && (retry_after.is_some() || problem.code == gateway::UNREACHABLE);
            overloaded = overload.then(|| problem.detail.clone().unwrap_or_else(|| problem.title.clone()));
            asked_for = retry_after;
            let policy = run.job.spec.retry.over(worker.config.retry);
            let now = worker.clock.now();
            let due = retry.then(|| policy.next_attempt(task.attempt, retry_after, now, &worker.entropy));
            End::Settled(match due.flatten() {
                Some(not_before) => Outcome::Retry { problem, not_before },
                None => Outcome::Failed { class, problem },
            })
        }
    };
    Executed { end, spend, took, overloaded, retry_after: asked_for }
}

async fn call(worker: &Worker, request: GatewayRequest) -> GatewayAnswer {
    let gauge = InFlight::begin();
    // A defect on the way of one task must not take the run with it: it is a failure like any other, tried again and counted.
    let answer = AssertUnwindSafe(worker.gateway.call(request)).catch_unwind().await;
    drop(gauge);
    answer.unwrap_or_else(|_| defect())
}

/// Counted for as long as it lives: a call that is given up is over as well.
struct InFlight;

impl InFlight {
    fn begin() -> InFlight {
        metrics::gauge!("conveyor_tasks_inflight").increment(1.0);
        InFlight
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        metrics::gauge!("conveyor_tasks_inflight").decrement(1.0);
    }
}

fn label(answer: &GatewayAnswer) -> &'static str {
    match answer {
        GatewayAnswer::Success { .. } => "success",
        GatewayAnswer::Failure { class, .. } => class.as_str(),
        GatewayAnswer::Account { fault, .. } => fault.as_str(),
    }
}

/// A task that goes back as if it had not been started.
pub fn released() -> End {
    End::Settled(Outcome::Release)
}

fn defect() -> GatewayAnswer {
    let problem = Problem::new(500, "internal", "The task met a defect").with_detail("The log says more.");
    let (class, spend) = (FailureClass::Other, Spend::default());
    GatewayAnswer::Failure { class, retry: true, retry_after: None, problem, spend }
}

/// The account cannot pay for more: the run ends here, and its tasks keep their attempts.
async fn fail_run(worker: &Worker, run: &RunContext, reason: AccountFault, detail: String) {
    let command = Command::FailRun { run: run.key.run, reason, detail };
    match worker.backend.store.apply(run.key.job, command, worker.clock.now()).await {
        Ok(view) => {
            tracing::info!(run = %run.key.run, status = view.latest.map(|latest| latest.run.status.as_str()), reason = reason.as_str(), "account-level answer of the gateway");
        }
        // The task is released; its next attempt meets the same answer and tries again.
        Err(error) => tracing::warn!(run = %run.key.run, %error, "the run could not be failed"),
    }
}

/// The end of a task that nobody can work on: its input cannot be read, or it has taken worker after worker down with it.
pub fn abandoned(input: &TaskInput, claims_max: u32) -> End {
    if input.is_damaged() {
        return End::Settled(Outcome::Failed {
            class: FailureClass::Other,
            problem: damage::problem("input"),
        });
    }
    let problem = Problem::new(500, "task_abandoned", "The task was given up").with_detail(format!(
        "It was started {claims_max} times and never reached an end; each time the worker stopped first."
    ));
    End::Settled(Outcome::Failed { class: FailureClass::Other, problem })
}
