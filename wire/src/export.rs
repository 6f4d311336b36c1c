use crate::{Open, Time};
use conveyor_domain::{ExportFormat, ExportId, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// What an export that was just asked for is known by.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StartedExport {
    pub export_id: ExportId,
    pub status: Open<ExportStatus>,
    pub format: Open<ExportFormat>,
    pub created_at: Time,
    pub expires_at: Time,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Export {
    pub export_id: ExportId,
    pub status: Open<ExportStatus>,
    pub format: Open<ExportFormat>,
    pub progress: Progress,
    pub error: Option<String>,
    pub download_url: Option<String>,
    pub download_url_expires_at: Option<Time>,
    pub created_at: Time,
    pub expires_at: Time,
}

words! {
    #[derive(JsonSchema)]
    #[schemars(inline)]
    pub enum ExportStatus as json {
        Pending = "pending",
        Running = "running",
        Completed = "completed",
        Failed = "failed",
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    pub tasks_done: u32,
    pub tasks_total: u32,
    pub bytes: u64,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Exports {
    pub exports: Vec<Export>,
    pub next_cursor: Option<String>,
}
