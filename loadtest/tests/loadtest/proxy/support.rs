//! A proxy in its own process, and the upstream behind it.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Request};
use axum::response::{IntoResponse, Response};
use conveyor_testkit::{Process, command, until};
use reqwest::{Client, Url};
use serde_json::Value;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

/// What the upstream was asked.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: Method,
    pub path_and_query: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Asked {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

#[derive(Clone, Debug, Default)]
pub struct Upstream(Arc<Mutex<Vec<Asked>>>);

impl Upstream {
    /// Serves what `answer` makes of each request, until the test ends.
    pub async fn start<R: IntoResponse>(
        answer: impl Fn(&Asked) -> R + Clone + Send + Sync + 'static,
    ) -> (Upstream, Url) {
        let upstream = Upstream::default();
        let seen = upstream.clone();
        let handle = async move |request: Request<Body>| -> Response {
            let (parts, body) = request.into_parts();
            let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
            let path_and_query = parts.uri.path_and_query().unwrap().to_string();
            let asked = Asked { method: parts.method, path_and_query, headers: parts.headers, body };
            seen.0.lock().unwrap().push(asked.clone());
            answer(&asked).into_response()
        };
        (upstream, serve(Router::new().fallback(handle)).await)
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.0.lock().unwrap().clone()
    }
}

pub async fn serve(router: Router) -> Url {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

pub struct Proxy {
    process: Process,
    pub url: Url,
    pub control: Url,
    pub client: Client,
}

impl Proxy {
    pub fn start(upstream: &Url, service: &str, flags: &[&str]) -> Proxy {
        let mut command = command(env!("CARGO_BIN_EXE_loadtest"));
        command.args(["proxy", "--control", "127.0.0.1:0", "--service", service]);
        command.args(["--upstream", upstream.as_str()]).args(flags);
        let process = Process::start(command);
        let (url, control) = (process.url.parse().unwrap(), process.control.parse().unwrap());
        let client = conveyor_outbound::client_builder().no_proxy().build().unwrap();
        Proxy { process, url, control, client }
    }

    /// A call as the SDKs send it to DynamoDB and SQS.
    pub async fn call(&self, operation: &str, body: &Value) -> reqwest::Result<reqwest::Response> {
        let request = self.client.post(self.url.clone()).header("x-amz-target", format!("Any.{operation}"));
        request.body(body.to_string()).send().await
    }

    pub async fn set_faults(&self, faults: Value) {
        let put = self.client.put(self.control.join("/faults").unwrap()).json(&faults);
        assert_eq!(put.send().await.unwrap().status(), 200);
    }

    pub async fn stats(&self) -> Value {
        let url = self.control.join("/stats").unwrap();
        self.client.get(url).send().await.unwrap().json().await.unwrap()
    }

    pub async fn wait_for_fault(&self, kind: &str, count: u64) {
        until(&format!("{count} of {kind}"), async || self.stats().await["faults"][kind] == count).await;
    }

    /// Asked to end, it does.
    pub async fn stop(self) {
        self.process.stop().await;
    }
}
