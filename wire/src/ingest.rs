use crate::{ListType, Open, Time, WarningCode};
use conveyor_domain::{Compression, ListFault, OnInvalidRows, RunId, UploadId, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

words! {
    /// `waiting`: no process has opened the list yet. `reading`: rows are written. `done`: all are there. `cut`: the
    /// run ended first. `failed`: the list cannot be taken. `stalled`: it is not tried again until an operator
    /// resumes it.
    #[derive(JsonSchema)]
    pub enum IngestState as json {
        /// Nobody has opened the list yet.
        Waiting = "waiting",
        Reading = "reading",
        Done = "done",
        /// The run ended first.
        Cut = "cut",
        Failed = "failed",
        /// Nobody tries any more until an operator says so.
        Stalled = "stalled",
    }
}

/// How far a list has become tasks.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [
    {"attempts_failed": 0, "bytes_read": 48211337, "chunks": 200, "compression": "none", "file_input_id":
    "01KCX5R8W2A4B6C8D0E2F4G6H8", "finished_at": "2026-01-01T00:00:24.250Z", "format": "csv",
    "on_invalid_rows": "skip", "rows_accepted": 999998, "rows_per_second": 43010.8, "rows_read": 1000000,
    "rows_rejected": 2, "run_id": "01KCX5T0Q8M3Z7C9D1F5G7H9J1", "sha256":
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "size_bytes": 48211337, "started_at":
    "2026-01-01T00:00:01.000Z", "state": "done", "updated_at": "2026-01-01T00:00:24.250Z"}
]))]
pub struct Ingest {
    pub run_id: RunId,
    /// How far it has got.
    pub state: Open<IngestState>,
    pub file_input_id: Option<UploadId>,
    /// The run whose tasks are taken over.
    pub rerun_of: Option<RunId>,
    /// How the list is written: `csv`; `jsonl`, JSON objects one a line; `lines`, URLs one a line.
    pub format: Option<Open<ListType>>,
    /// How the list is compressed, once it was opened.
    pub compression: Option<Open<Compression>>,
    /// As it was uploaded.
    pub size_bytes: Option<u64>,
    /// The sha256 of the bytes, in hex.
    pub sha256: Option<String>,
    /// What becomes of a staged list that has an invalid row: it is skipped and reported, or the whole list is
    /// refused.
    pub on_invalid_rows: Option<Open<OnInvalidRows>>,
    /// Records that were read.
    pub rows_read: u32,
    /// Records that became tasks.
    pub rows_accepted: u32,
    /// Records that are not valid tasks.
    pub rows_rejected: u32,
    /// Steps in which they were written.
    pub chunks: u32,
    /// Of the expanded list.
    pub bytes_read: u64,
    /// How fast it went.
    pub rows_per_second: Option<f64>,
    /// When it began.
    pub started_at: Option<Time>,
    /// When something happened last.
    pub updated_at: Time,
    /// When it ended.
    pub finished_at: Option<Time>,
    /// Since the last progress, and what the last of them said.
    pub attempts_failed: u32,
    /// What the last of them said.
    pub last_error: Option<String>,
    /// Why the list cannot be taken.
    pub error: Option<Fault>,
    /// Fields of rows that were ignored; left out if there are none. As many as fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<RowWarning>,
    /// How often fields were met that are not named, if not all fit.
    pub more_warnings: Option<u32>,
}

/// A field of rows of a list that was ignored.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RowWarning {
    /// `unknown_field`: a task has no such field.
    pub code: Open<WarningCode>,
    /// Its name.
    #[schemars(extend("examples" = ["urll"]))]
    pub field: String,
    /// How many rows have it.
    pub rows: u32,
}

/// Why a list cannot be taken.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Fault {
    /// Why, as a stable word for programs.
    pub code: Open<ListFault>,
    /// The same, as a sentence for people.
    #[schemars(extend("examples" = ["The list ends in the middle of its compression."]))]
    pub detail: String,
    /// Of the list, from 1.
    pub line: Option<u64>,
}
