//! The AWS backend as the server sees it: its flags, how it is opened, and Step Functions. A build without the feature `aws`
//! has `absent.rs` in its place.

mod args;

pub use args::AwsArgs;

use anyhow::Context;
use async_trait::async_trait;
use conveyor_aws::{StepFunctions, TaskAnswer, Timeouts};
use conveyor_domain::Entropy;
use conveyor_domain::delivery::Answer;
use conveyor_notify::StateMachines;
use conveyor_store::server_time::ServerTime;
use conveyor_store::{Backend, clock_watch};
use std::sync::Arc;
use std::time::Duration;

/// How long a start waits for the backend's time.
const TIME_ASKED_FOR: Duration = Duration::from_secs(2);

/// Opens the backend, and asks it for something, so that the time is known before anything is decided by it. A backend that
/// cannot be reached now says what time it is with its first answer, before which nothing can be decided either.
pub async fn open(args: &AwsArgs, entropy: &Arc<Entropy>, time: Arc<ServerTime>) -> anyhow::Result<Backend> {
    let backend = conveyor_aws::open(&args.settings_with(time)?, entropy.clone()).await;
    let asked = tokio::time::timeout(TIME_ASKED_FOR, clock_watch::look(backend.store.as_ref())).await;
    if !matches!(asked, Ok(Ok(_))) {
        tracing::warn!(
            "DynamoDB does not say what time it is; until it does, this process goes by its own clock"
        );
    }
    Ok(backend)
}

/// Where it is, for people.
pub fn describe(args: &AwsArgs) -> anyhow::Result<String> {
    let settings = args.settings().context("AWS")?;
    Ok(format!("table {}, queues {}-*, bucket {}", settings.table, settings.queue_prefix, settings.bucket))
}

/// Step Functions, for the AWS backend.
pub async fn machines(args: &AwsArgs) -> anyhow::Result<Arc<dyn StateMachines>> {
    let timeouts = args.settings()?.timeouts;
    Ok(Arc::new(Machines(StepFunctions::connect(timeouts).await)))
}

/// Step Functions, for a backend that has no settings of AWS.
pub async fn machines_alone() -> anyhow::Result<Arc<dyn StateMachines>> {
    Ok(Arc::new(Machines(StepFunctions::connect(Timeouts::default()).await)))
}

/// What the deliverer asks of Step Functions. Neither knows the other.
struct Machines(StepFunctions);

#[async_trait]
impl StateMachines for Machines {
    async fn succeed(&self, token: &str, output: &str) -> Answer {
        of_task(self.0.succeed(token, output).await)
    }

    async fn fail(&self, token: &str, error: &str, cause: &str) -> Answer {
        of_task(self.0.fail(token, error, cause).await)
    }
}

fn of_task(answer: TaskAnswer) -> Answer {
    match answer {
        TaskAnswer::Taken => Answer::Taken,
        TaskAnswer::Refused(code) => Answer::Refused(code),
        TaskAnswer::NotHeard(why) => Answer::Transport(why),
    }
}
