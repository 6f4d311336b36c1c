//! State machines that wait for a run, on a server that has Step Functions: a state that hands its token to a queue and goes
//! on once the token is answered.

use aws_config::BehaviorVersion;
use aws_sdk_sfn::config::{Credentials, Region};
use aws_sdk_sfn::types::ExecutionStatus;
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use conveyor_aws::{StepFunctions, TaskAnswer};
use conveyor_aws_servers::{Environment, Kind, shared};
use conveyor_testkit::eventually;

struct World {
    states: aws_sdk_sfn::Client,
    sqs: aws_sdk_sqs::Client,
    machines: StepFunctions,
}

impl World {
    async fn new() -> World {
        let url = tokio::task::spawn_blocking(|| shared::url(Kind::MiniStack)).await.unwrap().unwrap();
        let (id, secret) = (Environment::ACCESS_KEY_ID, Environment::SECRET_ACCESS_KEY);
        let http = Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https();
        let config = aws_config::defaults(BehaviorVersion::latest())
            .http_client(http)
            .credentials_provider(Credentials::new(id, secret, None, None, "tests"))
            .region(Region::new(Environment::REGION))
            .endpoint_url(url)
            .load()
            .await;
        let (states, sqs) = (aws_sdk_sfn::Client::new(&config), aws_sdk_sqs::Client::new(&config));
        World { machines: StepFunctions::over(states.clone()), states, sqs }
    }

    /// An execution that waits, and the token that it waits with.
    async fn waiting(&self, name: &str) -> (String, String) {
        let name = format!("{name}-{}", std::process::id());
        let queue = self.sqs.create_queue().queue_name(&name).send().await.unwrap().queue_url.unwrap();
        let definition = serde_json::json!({
            "StartAt": "Wait",
            "States": { "Wait": {
                "Type": "Task",
                "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
                "Parameters": { "QueueUrl": queue, "MessageBody": { "token.$": "$$.Task.Token" } },
                "End": true,
            } },
        });
        let machine = self
            .states
            .create_state_machine()
            .name(&name)
            .definition(definition.to_string())
            .role_arn("arn:aws:iam::000000000000:role/tests")
            .send()
            .await
            .unwrap();
        let started =
            self.states.start_execution().state_machine_arn(machine.state_machine_arn).send().await.unwrap();
        let token = eventually("the token", async || self.token(&queue).await).await;
        (started.execution_arn, token)
    }

    async fn token(&self, queue: &str) -> Option<String> {
        let received = self.sqs.receive_message().queue_url(queue).send().await.unwrap();
        let body = received.messages().first()?.body().unwrap();
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        Some(body["token"].as_str().unwrap().to_owned())
    }

    /// How it ended: with which output, or which error.
    async fn end(&self, execution: &str) -> (ExecutionStatus, String) {
        eventually("the execution ends", async || {
            let found = self.states.describe_execution().execution_arn(execution).send().await.unwrap();
            // This server says an error in the place of an output.
            let said = found.error.or(found.output).unwrap_or_default();
            (found.status != ExecutionStatus::Running).then_some((found.status, said))
        })
        .await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_goes_on_with_what_it_is_told() {
    let world = World::new().await;
    let (execution, token) = world.waiting("succeeds").await;
    assert_eq!(world.machines.succeed(&token, r#"{"event_type":"run.completed"}"#).await, TaskAnswer::Taken);
    let (status, output) = world.end(&execution).await;
    assert_eq!(status, ExecutionStatus::Succeeded);
    assert!(output.contains("run.completed"), "{output}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_fails_with_the_reason() {
    let world = World::new().await;
    let (execution, token) = world.waiting("fails").await;
    let told = world.machines.fail(&token, "insufficient_credits", "none left").await;
    assert_eq!(told, TaskAnswer::Taken);
    let (status, error) = world.end(&execution).await;
    assert_eq!(status, ExecutionStatus::Failed);
    assert!(error.contains("insufficient_credits"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_nobody_waits_with_is_refused_for_good() {
    let world = World::new().await;
    let told = world.machines.succeed("nobody-waits-with-this-token", "{}").await;
    assert!(matches!(&told, TaskAnswer::Refused(_)), "{told:?}");
}
