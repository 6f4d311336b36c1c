//! The few calls of Conveyor's HTTP API that a benchmark makes.

use anyhow::{Context, bail};
use reqwest::{Client, RequestBuilder, StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::time::Duration;

/// Far beyond what any call takes, short enough to notice a server that is stuck.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Conveyor {
    client: Client,
    jobs: Url,
    api_key: String,
}

#[derive(Debug, Deserialize)]
pub struct Submitted {
    pub job_id: String,
    pub accepted_tasks: u64,
}

#[derive(Debug, Deserialize)]
struct Job {
    latest_run: Run,
}

#[derive(Debug, Deserialize)]
pub struct Run {
    pub status: String,
    pub stats: RunStats,
    pub failure_reason: Option<String>,
    pub failure_detail: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct RunStats {
    pub total: u64,
    pub completed: u64,
    pub failed: u64,
}

impl Conveyor {
    pub fn new(server: &Url, api_key: String) -> anyhow::Result<Conveyor> {
        let client = Client::builder().no_proxy().timeout(REQUEST_TIMEOUT).build()?;
        let mut jobs = server.clone();
        match jobs.path_segments_mut() {
            Ok(mut path) => path.pop_if_empty().extend(["v1", "jobs"]),
            Err(()) => bail!("--server is not an http(s) URL"),
        };
        Ok(Conveyor { client, jobs, api_key })
    }

    /// Submits a closed job of these URLs.
    pub async fn submit(&self, urls: &[String], max_inflight: u32) -> anyhow::Result<Submitted> {
        let tasks: Vec<Value> = urls.iter().map(|url| json!({ "url": url })).collect();
        let job = json!({ "status": "closed", "max_inflight": max_inflight, "tasks": tasks });
        let request = self.client.post(self.jobs.clone()).json(&job);
        self.send(request, StatusCode::CREATED).await.context("the submit failed")
    }

    pub async fn latest_run(&self, job_id: &str) -> anyhow::Result<Run> {
        let url = format!("{}/{job_id}", self.jobs);
        let job: Job =
            self.send(self.client.get(url), StatusCode::OK).await.context("the job cannot be read")?;
        Ok(job.latest_run)
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
        expected: StatusCode,
    ) -> anyhow::Result<T> {
        let response = request.header("X-API-Key", &self.api_key).send().await?;
        let status = response.status();
        let body = response.bytes().await?;
        if status != expected {
            bail!("the server answered {status}: {}", said(&body));
        }
        serde_json::from_slice(&body).context("the answer is not what the API promises")
    }
}

/// Code and detail of a problem, or the beginning of whatever it was.
fn said(body: &[u8]) -> String {
    let problem: Value = serde_json::from_slice(body).unwrap_or_default();
    match (problem["code"].as_str(), problem["detail"].as_str().or(problem["title"].as_str())) {
        (Some(code), Some(detail)) => format!("{code}: {detail}"),
        (Some(code), None) => code.to_owned(),
        (None, _) => String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned(),
    }
}
