//! The few calls of Conveyor's HTTP API that a benchmark makes.

use anyhow::{Context, bail};
use reqwest::header::CONTENT_LENGTH;
use reqwest::{Body, Client, Method, RequestBuilder, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;
use tokio::fs::File;
use tokio_util::io::ReaderStream;

/// Far beyond what any call takes, short enough to notice a server that is stuck.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Large enough that reading the file does not slow the upload down.
const UPLOAD_PIECE_BYTES: usize = 256 * 1024;

#[derive(Debug)]
pub struct Conveyor {
    client: Client,
    jobs: Url,
    job_inputs: Url,
    api_key: String,
}

/// How fast tasks of a job may start.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RateLimit {
    pub per_second: f64,
    pub burst: u32,
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
    /// Only a run with a staged list has one.
    pub ingest_status: Option<String>,
    pub failure_reason: Option<String>,
    pub failure_detail: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct RunStats {
    pub total: u64,
    pub completed: u64,
    pub failed: u64,
}

#[derive(Debug, Deserialize)]
pub struct Slot {
    pub file_input_id: String,
    pub upload: Upload,
}

/// The request that takes the bytes, word for word.
#[derive(Debug, Deserialize)]
pub struct Upload {
    method: String,
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
pub struct ResultsPage {
    pub results: Vec<ResultRow>,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct ResultRow {
    pub task_id: String,
    pub url: String,
    pub external_id: Option<String>,
}

impl Upload {
    /// Whether the bytes go to that server, and not past it to where they are kept.
    pub fn goes_to(&self, server: &Url) -> bool {
        Url::parse(&self.url).is_ok_and(|url| url.origin() == server.origin())
    }
}

impl Conveyor {
    pub fn new(server: &Url, api_key: String) -> anyhow::Result<Conveyor> {
        let client = conveyor_outbound::client_builder().no_proxy().timeout(REQUEST_TIMEOUT).build()?;
        let route = |name: &str| {
            let mut url = server.clone();
            match url.path_segments_mut() {
                Ok(mut path) => path.pop_if_empty().extend(["v1", name]),
                Err(()) => bail!("--server is not an http(s) URL"),
            };
            Ok(url)
        };
        Ok(Conveyor { client, jobs: route("jobs")?, job_inputs: route("job_inputs")?, api_key })
    }

    /// Submits a closed job of these URLs.
    pub async fn submit(&self, urls: &[String], max_inflight: u32) -> anyhow::Result<Submitted> {
        self.submit_rated(urls, max_inflight, None).await
    }

    /// The same, at no more than a rate.
    pub async fn submit_rated(
        &self,
        urls: &[String],
        max_inflight: u32,
        rate_limit: Option<RateLimit>,
    ) -> anyhow::Result<Submitted> {
        let limits = rate_limit.map(|rate_limit| json!({ "rate_limit": rate_limit }));
        self.submit_limited(urls, max_inflight, limits.unwrap_or_else(|| json!({}))).await
    }

    /// The same, with limits as the API names them.
    pub async fn submit_limited(
        &self,
        urls: &[String],
        max_inflight: u32,
        limits: Value,
    ) -> anyhow::Result<Submitted> {
        let tasks: Vec<Value> = urls.iter().map(|url| json!({ "url": url })).collect();
        let mut job = json!({ "status": "closed", "max_inflight": max_inflight, "tasks": tasks });
        if let (Some(job), Value::Object(limits)) = (job.as_object_mut(), limits) {
            job.extend(limits);
        }
        let request = self.client.post(strict(&self.jobs)).json(&job);
        self.send(request, &[StatusCode::CREATED]).await.context("the submit failed")
    }

    /// Makes room for a CSV of `id,url` with a header.
    pub async fn stage_csv(&self) -> anyhow::Result<Slot> {
        let fields = json!({ "url": "url", "external_id": "id" });
        let csv = json!({ "delimiter": ",", "quote": "\"", "header": true, "fields": fields });
        let request = self.client.post(strict(&self.job_inputs)).json(&json!({ "type": "csv", "csv": csv }));
        self.send(request, &[StatusCode::CREATED]).await.context("the upload slot failed")
    }

    /// Sends a file as the slot says, piece by piece, and without the key: the URL is the permission.
    pub async fn upload(&self, upload: &Upload, file: &Path, timeout: Duration) -> anyhow::Result<()> {
        let file = File::open(file).await?;
        let bytes = file.metadata().await?.len();
        let pieces = ReaderStream::with_capacity(file, UPLOAD_PIECE_BYTES);
        let mut request = self.client.request(Method::from_str(&upload.method)?, &upload.url);
        for (name, value) in &upload.headers {
            request = request.header(name, value);
        }
        // A body of unknown length would be sent in chunks, which presigned URLs do not take.
        request = request.header(CONTENT_LENGTH, bytes).body(Body::wrap_stream(pieces));
        let response = request.timeout(timeout).send().await.context("the upload failed")?;
        let status = response.status();
        if !status.is_success() {
            bail!("the upload was answered {status}: {}", said(&response.bytes().await?));
        }
        Ok(())
    }

    /// Submits a closed job of an uploaded list. A short list may be answered 201, as if it had come inline.
    pub async fn submit_staged(&self, file_input_id: &str, max_inflight: u32) -> anyhow::Result<Submitted> {
        let job = json!({
            "type": "regular", "status": "closed", "file_input_id": file_input_id, "max_inflight": max_inflight,
        });
        let request = self.client.post(strict(&self.jobs)).json(&job);
        self.send(request, &[StatusCode::ACCEPTED, StatusCode::CREATED]).await.context("the submit failed")
    }

    pub async fn latest_run(&self, job_id: &str) -> anyhow::Result<Run> {
        let url = format!("{}/{job_id}", self.jobs);
        let job: Job =
            self.send(self.client.get(url), &[StatusCode::OK]).await.context("the job cannot be read")?;
        Ok(job.latest_run)
    }

    /// Over how many partitions the tasks are spread, where the server tells it.
    pub async fn task_shard_count(&self, job_id: &str) -> anyhow::Result<Option<u64>> {
        let request = self.client.get(format!("{}/{job_id}", self.jobs));
        let job: Value = self.send(request, &[StatusCode::OK]).await.context("the job cannot be read")?;
        let of = |value: &Value| value["task_shard_count"].as_u64();
        Ok(of(&job).or_else(|| of(&job["latest_run"])))
    }

    pub async fn results(
        &self,
        job_id: &str,
        limit: u32,
        cursor: Option<&str>,
    ) -> anyhow::Result<ResultsPage> {
        let mut url = Url::parse(&format!("{}/{job_id}/results", self.jobs))?;
        url.query_pairs_mut().append_pair("limit", &limit.to_string());
        if let Some(cursor) = cursor {
            url.query_pairs_mut().append_pair("cursor", cursor);
        }
        self.send(self.client.get(url), &[StatusCode::OK]).await.context("the results cannot be read")
    }

    pub async fn stop(&self, job_id: &str) -> anyhow::Result<()> {
        let request = self.client.post(format!("{}/{job_id}/stop", self.jobs));
        let _run: Value = self.send(request, &[StatusCode::OK]).await.context("the job cannot be stopped")?;
        Ok(())
    }

    pub async fn delete(&self, job_id: &str) -> anyhow::Result<()> {
        let request = self.client.delete(format!("{}/{job_id}", self.jobs));
        let _job: Value =
            self.send(request, &[StatusCode::ACCEPTED]).await.context("the job cannot be deleted")?;
        Ok(())
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
        expected: &[StatusCode],
    ) -> anyhow::Result<T> {
        let response = request.header("X-API-Key", &self.api_key).send().await?;
        let status = response.status();
        let body = response.bytes().await?;
        if !expected.contains(&status) {
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

/// What a benchmark misspells is not to be measured.
fn strict(route: &Url) -> Url {
    let mut url = route.clone();
    url.query_pairs_mut().append_pair("strict", "true");
    url
}
