//! A server that answers what a test tells it to: for what no server here does by itself.

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use conveyor_aws::queue::Queues;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// The operation that must come next, and what it is answered.
struct Step {
    operation: &'static str,
    status: u16,
    answer: Value,
}

#[derive(Default)]
struct Play {
    steps: VecDeque<Step>,
    asked: Vec<Value>,
}

#[derive(Clone, Default)]
pub struct Script(Arc<Mutex<Play>>);

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Script")
    }
}

impl Script {
    /// That the queue is there.
    pub fn found() -> Script {
        Script::default().then("GetQueueUrl", json!({ "QueueUrl": "http://queues/1/q" }))
    }

    pub fn missing() -> Script {
        Script::default().then_refuses("GetQueueUrl", "QueueDoesNotExist")
    }

    fn step(self, operation: &'static str, status: u16, answer: Value) -> Script {
        self.0.lock().unwrap().steps.push_back(Step { operation, status, answer });
        self
    }

    #[must_use]
    pub fn then(self, operation: &'static str, answer: Value) -> Script {
        self.step(operation, 200, answer)
    }

    #[must_use]
    pub fn then_refuses(self, operation: &'static str, code: &str) -> Script {
        let answer = json!({ "__type": format!("com.amazonaws.sqs#{code}"), "message": "so it is told" });
        self.step(operation, 400, answer)
    }

    pub async fn queues(&self) -> Queues {
        let settings = crate::queue::world::settings();
        let sqs = crate::queue::world::client(&settings, |config| {
            config.endpoint_url("http://queues").http_client(self.clone())
        });
        Queues::new(sqs.await, &settings)
    }

    /// What was asked, once everything was.
    pub fn asked(&self) -> Vec<Value> {
        let play = self.0.lock().unwrap();
        assert_eq!(play.steps.len(), 0, "some were never asked for");
        play.asked.clone()
    }
}

impl HttpConnector for Script {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap();
        let mut play = self.0.lock().unwrap();
        play.asked.push(serde_json::from_slice(request.body().bytes().unwrap()).unwrap());
        let step = play.steps.pop_front().unwrap_or_else(|| panic!("nobody expects {target}"));
        assert_eq!(target, format!("AmazonSQS.{}", step.operation));
        let status = step.status.try_into().unwrap();
        HttpConnectorFuture::ready(Ok(HttpResponse::new(status, SdkBody::from(step.answer.to_string()))))
    }
}

impl HttpClient for Script {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}
