//! A proxy in its own process, and the upstream behind it.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Request};
use axum::response::{IntoResponse, Response};
use reqwest::{Client, Url};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

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
    process: Child,
    pub url: Url,
    pub control: Url,
    pub client: Client,
}

impl Proxy {
    pub fn start(upstream: &Url, service: &str, flags: &[&str]) -> Proxy {
        let mut process = Command::new(env!("CARGO_BIN_EXE_loadtest"))
            .args([
                "proxy",
                "--control",
                "127.0.0.1:0",
                "--service",
                service,
                "--upstream",
                upstream.as_str(),
            ])
            .args(flags)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut url_after = |words: &str| -> Url {
            let line = lines.next().unwrap().unwrap();
            line.strip_prefix(words).unwrap().parse().unwrap()
        };
        let (url, control) = (url_after("listening on "), url_after("control on "));
        Proxy {
            process,
            url,
            control,
            client: conveyor_outbound::client_builder().no_proxy().build().unwrap(),
        }
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
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.stats().await["faults"][kind] != count {
            assert!(Instant::now() < deadline, "never {count} of {kind}: {}", self.stats().await);
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Asked to end, it does.
    pub fn stop(mut self) {
        let id = i32::try_from(self.process.id()).unwrap();
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(id).unwrap(),
            rustix::process::Signal::TERM,
        )
        .unwrap();
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
