//! What the deliverer asks of Step Functions. Neither knows the other.

use async_trait::async_trait;
use conveyor_aws::{StepFunctions, TaskAnswer};
use conveyor_domain::delivery::Answer;
use conveyor_notify::StateMachines;

pub struct Machines(pub StepFunctions);

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
