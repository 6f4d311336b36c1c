//! What this client reads of the API's documents. Fields it does not show are not named, and statuses stay text:
//! a newer server may have more of both.

use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Debug, Deserialize)]
pub struct Job {
    pub job_id: String,
    pub status: String,
    pub name: Option<String>,
    pub external_id: Option<String>,
    /// Only a scheduled job has these, and one that fires no more only the first.
    pub schedule_state: Option<String>,
    pub next_scheduled_run: Option<String>,
    pub latest_run: Option<Run>,
    pub created_at: Option<String>,
    pub updated_at: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct Run {
    pub run_id: String,
    pub run_sequence: u64,
    pub status: String,
    pub stats: Stats,
    pub pause_state: Option<String>,
    pub pause_reason: Option<PauseReason>,
    /// Only a run with a staged list has one.
    pub ingest_status: Option<String>,
    pub failure_reason: Option<String>,
    pub failure_detail: Option<String>,
}

/// The answer to a rerun.
#[derive(Debug, Deserialize)]
pub struct Rerun {
    pub latest_run: Run,
    pub retried_tasks: u64,
    pub inherited_tasks: u64,
    /// If it is not, nobody has counted the list, and there may be more tasks.
    pub total_is_final: Option<bool>,
}

impl Run {
    /// Whether the run will not change its status any more.
    pub fn is_over(&self) -> bool {
        matches!(self.status.as_str(), "completed" | "stopped" | "failed" | "deleted")
    }

    /// Whether it did all it was asked to. Failed tasks are results too.
    pub fn is_completed(&self) -> bool {
        self.status == "completed"
    }

    /// Whether it waits for somebody to resume it.
    pub fn is_paused(&self) -> bool {
        self.pause_state.as_deref() == Some("paused") && !self.is_over()
    }

    /// Its status, and whether it is paused in it.
    pub fn state(&self) -> String {
        let paused = if self.is_paused() { ", paused" } else { "" };
        format!("{}{paused}", self.status)
    }

    /// Whether its list is still being read.
    pub fn is_ingesting(&self) -> bool {
        self.ingest_status.as_deref() == Some("pending")
    }
}

/// Why nobody had to ask for a pause.
#[derive(Debug, Deserialize)]
pub struct PauseReason {
    pub code: String,
    #[serde(default)]
    pub detail: String,
}

/// What was charged.
#[derive(Debug, Deserialize)]
pub struct Spend {
    pub credits: u64,
    pub cost: f64,
}

#[derive(Debug, Default, Deserialize)]
pub struct Stats {
    pub total: u64,
    /// Said only while it is not known how many tasks there will be; `total` is the least then.
    pub total_is_final: Option<bool>,
    pub completed: u64,
    pub successful: u64,
    pub failed: u64,
    /// Its counts contradict each other, and are cut to fit.
    #[serde(default)]
    pub inconsistent: bool,
    #[serde(default)]
    pub failure_reasons: BTreeMap<String, u64>,
    pub spend: Option<Spend>,
}

#[derive(Debug, Deserialize)]
pub struct Submitted {
    pub job_id: String,
    #[serde(default)]
    pub accepted_tasks: u64,
    pub latest_run: Option<SubmittedRun>,
}

#[derive(Debug, Deserialize)]
pub struct SubmittedRun {
    pub run_id: String,
    pub ingest_status: Option<String>,
}

/// How far the list of a run is.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Ingest {
    pub state: String,
    pub rows_read: u64,
    pub rows_accepted: u64,
    pub rows_rejected: u64,
    pub bytes_read: u64,
    pub size_bytes: Option<u64>,
    pub compression: Option<String>,
    pub rows_per_second: Option<f64>,
    pub error: Option<IngestError>,
    pub last_error: Option<String>,
    /// Fields of rows that were ignored.
    pub warnings: Vec<RowWarning>,
    pub more_warnings: u64,
}

#[derive(Debug, Deserialize)]
pub struct RowWarning {
    pub field: String,
    pub rows: u64,
}

#[derive(Debug, Deserialize)]
pub struct IngestError {
    pub code: String,
    pub detail: Option<String>,
    pub line: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub struct StartedExport {
    pub export_id: String,
}

#[derive(Debug, Deserialize)]
pub struct Export {
    pub status: String,
    pub format: Option<String>,
    pub error: Option<String>,
    pub download_url: Option<String>,
    #[serde(default)]
    pub progress: ExportProgress,
}

#[derive(Debug, Default, Deserialize)]
pub struct ExportProgress {
    pub tasks_done: u64,
    pub tasks_total: u64,
    pub bytes: u64,
}

#[derive(Debug, Deserialize)]
pub struct TaskResult {
    pub task_id: String,
    pub status: String,
    pub url: String,
    #[serde(rename = "type")]
    pub format: Option<String>,
    pub result_url: Option<String>,
    pub error: Option<TaskError>,
}

#[derive(Debug, Deserialize)]
pub struct TaskError {
    pub code: String,
}
