//! What benchmarks ask of a server. Everything is sent once: what fails is not to be measured.

use anyhow::Context;
use conveyor_client::wire::{Character, CreateInput, CsvBody, CsvFields, ListType, SubmitJob, TaskBody};
use conveyor_client::wire::{Run, SubmitStatus, Submitted};
use conveyor_client::{Client, Column, JobId, Retries, Source, Upload, UploadId};
use reqwest::Url;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use tokio::time::timeout;

#[derive(Debug)]
pub struct Conveyor(pub Client);

impl Conveyor {
    pub fn new(server: &Url, api_key: &str) -> anyhow::Result<Conveyor> {
        Ok(Conveyor(Client::builder(server.as_str()).key(api_key).retries(Retries::NONE).build()?))
    }

    /// Submits a closed job of these URLs.
    pub async fn submit(&self, urls: &[String], max_inflight: u32) -> anyhow::Result<Submitted> {
        self.submit_limited(urls, max_inflight, SubmitJob::default()).await
    }

    /// The same, with more limits.
    pub async fn submit_limited(
        &self,
        urls: &[String],
        max_inflight: u32,
        limits: SubmitJob,
    ) -> anyhow::Result<Submitted> {
        let tasks = urls.iter().map(TaskBody::of).collect();
        self.submit_closed(SubmitJob { tasks: Some(tasks), ..limits }, max_inflight).await
    }

    /// Submits a closed job of an uploaded list.
    pub async fn submit_staged(&self, upload: UploadId, max_inflight: u32) -> anyhow::Result<Submitted> {
        let job = SubmitJob { file_input_id: Some(upload.to_string()), ..SubmitJob::default() };
        self.submit_closed(job, max_inflight).await
    }

    async fn submit_closed(&self, job: SubmitJob, max_inflight: u32) -> anyhow::Result<Submitted> {
        let (status, max_inflight) = (Some(SubmitStatus::Closed), Some(max_inflight.into()));
        let job = SubmitJob { status, max_inflight, ..job };
        Ok(self.0.submit(&job).await.context("the submit failed")?.document)
    }

    /// Makes room for a CSV of `id,url` with a header, which is sent in one request.
    pub async fn stage_csv(&self, file: &Path) -> anyhow::Result<Upload> {
        let column = |name: &str| Column::Name(name.to_owned());
        let fields = CsvFields { url: column("url"), external_id: Some(column("id")) };
        let (delimiter, quote) = (Some(Character(b',')), Some(Character(b'"')));
        let csv = Some(CsvBody { delimiter, quote, header: Some(true), fields });
        let list = CreateInput { csv, ..CreateInput::of(ListType::Csv) };
        let whole = Some(u64::MAX);
        let staged = self.0.begin_upload(list, Source::open(file).await?, whole).await;
        staged.context("the upload slot failed")
    }

    pub async fn latest_run(&self, job: JobId) -> anyhow::Result<Run> {
        let job = self.0.job(job).await.context("the job cannot be read")?.document;
        job.latest_run.context("the job has no run")
    }

    /// Over how many partitions the tasks are spread, where the server tells it.
    pub async fn task_shard_count(&self, job: JobId) -> anyhow::Result<Option<u64>> {
        let job: Value = serde_json::from_str(&self.0.job(job).await?.text)?;
        let of = |value: &Value| value["task_shard_count"].as_u64();
        Ok(of(&job).or_else(|| of(&job["latest_run"])))
    }
}

pub async fn send(upload: Upload, within: Duration) -> anyhow::Result<UploadId> {
    let sent = timeout(within, upload.send()).await.context("the upload took too long")?;
    sent.context("the upload failed")
}

/// Why a run ended as it did.
pub fn reason(run: &Run) -> String {
    run.failure_reason.as_ref().map_or_else(|| "no reason given".to_owned(), |reason| reason.to_string())
}

#[cfg(test)]
pub fn run(status: &str, ingest_status: Option<&str>, total: u64, completed: u64, failed: u64) -> Run {
    const ID: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    const T: &str = "2026-11-16T05:00:15.912Z";
    let stats = serde_json::json!({"total": total, "completed": completed, "successful": completed, "failed": failed});
    let reason = (status == "failed").then_some("insufficient_credits");
    serde_json::from_value(serde_json::json!({
        "run_id": ID, "job_id": ID, "run_sequence": 1, "status": status, "trigger": "manual", "stats": stats,
        "last_batch_received": true, "ingest_status": ingest_status, "failure_reason": reason,
        "created_at": T, "updated_at": T,
    }))
    .unwrap()
}
