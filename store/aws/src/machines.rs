//! State machines of Step Functions that wait for a run: what they are told, and whether they heard it.

use crate::client::{Timeouts, retry_budget, sdk_defaults, timeout};
use aws_sdk_sfn::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use aws_sdk_sfn::operation::RequestId;

/// What Step Functions takes of an error and of its cause.
const ERROR_MAX_CHARS: usize = 256;
const CAUSE_MAX_CHARS: usize = 32_768;

#[derive(Clone, Debug)]
pub struct StepFunctions {
    states: aws_sdk_sfn::Client,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskAnswer {
    Taken,
    /// Nobody waits with this token, or never will again; the code says which.
    Refused(String),
    /// Worth another try.
    NotHeard(String),
}

impl StepFunctions {
    /// Endpoint, region and credentials are the SDK's own business, and follow its variables.
    pub async fn connect(timeouts: Timeouts) -> StepFunctions {
        let shared = sdk_defaults(timeouts)
            .timeout_config(timeout(timeouts.connect, timeouts.attempt, timeouts.operation))
            .load()
            .await;
        let states = aws_sdk_sfn::config::Builder::from(&shared).retry_partition(retry_budget()).build();
        StepFunctions::over(aws_sdk_sfn::Client::from_conf(states))
    }

    pub fn over(states: aws_sdk_sfn::Client) -> StepFunctions {
        StepFunctions { states }
    }

    pub async fn succeed(&self, token: &str, output: &str) -> TaskAnswer {
        answer(self.states.send_task_success().task_token(token).output(output).send().await)
    }

    pub async fn fail(&self, token: &str, error: &str, cause: &str) -> TaskAnswer {
        let (error, cause) = (cut(error, ERROR_MAX_CHARS), cut(cause, CAUSE_MAX_CHARS));
        answer(self.states.send_task_failure().task_token(token).error(error).cause(cause).send().await)
    }
}

fn cut(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}

fn answer<T, E>(sent: Result<T, SdkError<E>>) -> TaskAnswer
where
    E: ProvideErrorMetadata + RequestId + std::error::Error + 'static,
{
    let error = match sent {
        Ok(_) => return TaskAnswer::Taken,
        Err(error) => error,
    };
    match error.code() {
        Some(code @ ("TaskTimedOut" | "TaskDoesNotExist" | "InvalidToken" | "InvalidOutput")) => {
            TaskAnswer::Refused(code.to_owned())
        }
        Some(code) => TaskAnswer::NotHeard(code.to_owned()),
        // Not in whole: the request, and with it the token, is part of some errors.
        None => TaskAnswer::NotHeard(cut(&DisplayErrorContext(&error).to_string(), ERROR_MAX_CHARS)),
    }
}
