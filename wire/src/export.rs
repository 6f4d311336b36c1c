use crate::{Cursor, Open, Time};
use conveyor_domain::{ExportFormat, ExportId, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// An export that was just asked for.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StartedExport {
    pub export_id: ExportId,
    /// How far it has got: `pending`, or by now `running`, `completed` or `failed`.
    pub status: Open<ExportStatus>,
    /// Which file it is.
    pub format: Open<ExportFormat>,
    pub created_at: Time,
    /// Until when it is kept: 12 hours after it was asked for.
    pub expires_at: Time,
}

/// A file of the results of a run, and how far it is.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Export {
    pub export_id: ExportId,
    /// `pending`: it waits for a builder. `running`: it is built. `completed`: it can be downloaded. `failed`: it
    /// cannot be built; `error` says why.
    pub status: Open<ExportStatus>,
    /// Which file it is.
    pub format: Open<ExportFormat>,
    pub progress: Progress,
    /// Why it failed.
    #[schemars(extend("examples" = ["the result of task 000000003c9e2d3a1b5f7a9c0e4d6b82 is gone"]))]
    pub error: Option<String>,
    /// Where the file is. Signed: it needs no key, and is valid for a limited time.
    #[schemars(extend("examples" = ["https://api.example.com/v1/exports/01KCX5T0Q8H2V4M6N8P0R2S4T6/01KCX5T0Q8M3Z7C9D1F5G7H9J1/01KCX5Y1D3E5F7G9H1J3K5M7N9?caller=01KCX5Z3E5F7G9H1J3K5M7N9P3&expires=1767232800&signature=q0b3f1"]))]
    pub download_url: Option<String>,
    /// Until when `download_url` is valid. Another request gives a fresh one, as long as the export is kept.
    pub download_url_expires_at: Option<Time>,
    pub created_at: Time,
    /// Until when it is kept: 12 hours after it was asked for.
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

/// How far an export has got.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"bytes": 18234, "tasks_done": 2, "tasks_total": 2}]))]
pub struct Progress {
    /// Tasks that are in it.
    pub tasks_done: u32,
    /// Tasks that will be.
    pub tasks_total: u32,
    /// Bytes that were written.
    pub bytes: u64,
}

/// A page of exports.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Exports {
    pub exports: Vec<Export>,
    #[schemars(with = "Option<Cursor>")]
    pub next_cursor: Option<String>,
}
