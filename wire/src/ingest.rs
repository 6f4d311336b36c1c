use crate::{ListType, Open, Time, WarningCode};
use conveyor_domain::{Compression, ListFault, OnInvalidRows, RunId, UploadId, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

words! {
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

/// How far a staged list is on its way to tasks.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Ingest {
    pub run_id: RunId,
    pub state: Open<IngestState>,
    pub file_input_id: Option<UploadId>,
    /// The run whose tasks are taken over.
    pub rerun_of: Option<RunId>,
    pub format: Option<Open<ListType>>,
    pub compression: Option<Open<Compression>>,
    /// As it was uploaded.
    pub size_bytes: Option<u64>,
    pub sha256: Option<String>,
    pub on_invalid_rows: Option<Open<OnInvalidRows>>,
    pub rows_read: u32,
    pub rows_accepted: u32,
    pub rows_rejected: u32,
    pub chunks: u32,
    /// Of the expanded list.
    pub bytes_read: u64,
    pub rows_per_second: Option<f64>,
    pub started_at: Option<Time>,
    pub updated_at: Time,
    pub finished_at: Option<Time>,
    /// Since the last progress, and what the last of them said.
    pub attempts_failed: u32,
    pub last_error: Option<String>,
    pub error: Option<Fault>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<RowWarning>,
    pub more_warnings: Option<u32>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RowWarning {
    pub code: Open<WarningCode>,
    pub field: String,
    pub rows: u32,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Fault {
    pub code: Open<ListFault>,
    pub detail: String,
    pub line: Option<u64>,
}
