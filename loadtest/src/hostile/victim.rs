//! The caller that others try to keep out, and the probes of an operator.

use anyhow::Context;
use reqwest::{Client, RequestBuilder, Url};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// Long enough that a call is lost, not slow.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);
/// Between two calls: fewer a second than a caller may send.
const PAUSE: Duration = Duration::from_millis(5);
const HEALTH_EVERY: Duration = Duration::from_millis(50);
/// Every so many calls go over a new connection.
const NEW_EVERY: u64 = 10;

#[derive(Clone, Debug)]
pub struct Victim {
    keeping: Client,
    opening: Client,
    server: Url,
    key: String,
}

#[derive(Debug, Default)]
pub struct Served {
    pub latencies: Vec<Duration>,
    /// Whatever was not a success, in words.
    pub refusals: Vec<String>,
}

impl Served {
    pub fn add(&mut self, more: Served) {
        self.latencies.extend(more.latencies);
        self.refusals.extend(more.refusals);
    }
}

impl Victim {
    pub fn new(server: &Url, key: &str) -> anyhow::Result<Victim> {
        let builder = || conveyor_outbound::client_builder().no_proxy().timeout(CALL_TIMEOUT);
        let opening = builder().pool_max_idle_per_host(0).build()?;
        Ok(Victim { keeping: builder().build()?, opening, server: server.clone(), key: key.to_owned() })
    }

    /// Submits and polls, so many calls in all.
    pub async fn serve(&self, calls: u64) -> Served {
        let mut served = Served::default();
        let mut job = None;
        for n in 0..calls {
            let client = if n % NEW_EVERY == 0 { &self.opening } else { &self.keeping };
            let path = job.take().map_or_else(|| "/v1/jobs".to_owned(), |id| format!("/v1/jobs/{id}"));
            let url = format!("{}{path}", self.server.as_str().trim_end_matches('/'));
            let request = match path.as_str() {
                "/v1/jobs" => client
                    .post(format!("{url}?strict=true"))
                    .json(&json!({"tasks": [{"url": "http://target.example/one"}]})),
                _ => client.get(url),
            };
            let began = Instant::now();
            match self.call(request).await {
                Ok(answer) if path == "/v1/jobs" => job = answer["job_id"].as_str().map(str::to_owned),
                Ok(_) => {}
                Err(refusal) => served.refusals.push(format!("{refusal:#}")),
            }
            served.latencies.push(began.elapsed());
            sleep(PAUSE).await;
        }
        served
    }

    async fn call(&self, request: RequestBuilder) -> anyhow::Result<Value> {
        let answer = request.header("X-API-Key", &self.key).send().await?;
        let (status, text) = (answer.status(), answer.text().await?);
        anyhow::ensure!(status.is_success(), "{status}: {text}");
        serde_json::from_str(&text).context("not JSON")
    }

    pub async fn metrics(&self) -> Option<String> {
        self.probe("metrics").await.ok()
    }

    /// On a connection of its own.
    async fn probe(&self, path: &str) -> anyhow::Result<String> {
        let request = self.opening.get(self.server.join(path)?);
        Ok(request.send().await?.error_for_status()?.text().await?)
    }
}

/// Asks for health until it is ended.
#[derive(Debug)]
pub struct Health {
    asking: JoinHandle<Answered>,
    end: oneshot::Sender<()>,
}

#[derive(Debug, Default)]
pub struct Answered {
    pub asked: usize,
    pub unanswered: usize,
    pub longest: Duration,
}

impl Health {
    pub fn start(victim: Victim) -> Health {
        let (end, mut ended) = oneshot::channel();
        let asking = tokio::spawn(async move {
            let mut answered = Answered::default();
            while ended.try_recv() == Err(oneshot::error::TryRecvError::Empty) {
                for path in ["healthz", "metrics"] {
                    let began = Instant::now();
                    let answer = victim.probe(path).await;
                    answered.asked += 1;
                    answered.unanswered += usize::from(answer.is_err());
                    answered.longest = answered.longest.max(began.elapsed());
                }
                sleep(HEALTH_EVERY).await;
            }
            answered
        });
        Health { asking, end }
    }

    pub async fn end(self) -> anyhow::Result<Answered> {
        // Only a task that panicked hears nothing.
        let _ = self.end.send(());
        Ok(self.asking.await?)
    }
}
