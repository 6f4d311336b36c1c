//! The deliverer, wired: what it asks of Step Functions. Neither knows the other.

use super::Parts;
use super::args::BackendKind;
use async_trait::async_trait;
use conveyor_aws::{StepFunctions, TaskAnswer, Timeouts};
use conveyor_domain::delivery::Answer;
use conveyor_notify::{Notifier, Receivers, StateMachines};
use std::sync::Arc;

/// What delivers, in whichever role needs it.
pub async fn open(parts: &Parts) -> anyhow::Result<Arc<Notifier>> {
    let args = &parts.args;
    let machines: Option<Arc<dyn StateMachines>> = match (args.place.backend, args.sfn) {
        (BackendKind::Embedded, false) => None,
        (BackendKind::Embedded, true) => {
            Some(Arc::new(Machines(StepFunctions::connect(Timeouts::default()).await)))
        }
        (BackendKind::Aws, _) => {
            let timeouts = args.place.aws.settings()?.timeouts;
            Some(Arc::new(Machines(StepFunctions::connect(timeouts).await)))
        }
    };
    Ok(Arc::new(Notifier {
        backend: parts.backend.clone(),
        secret: parts.secret.clone(),
        clock: parts.clock.clone(),
        entropy: parts.entropy.clone(),
        receivers: Receivers::new(args.allow_http_webhooks)?,
        machines,
    }))
}

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
