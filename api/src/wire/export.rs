//! Exports, as they are asked for and shown.

use super::Time;
use crate::fields::Fields;
use crate::problem::Result;
use crate::signed_url::Link;
use crate::warnings::Warnings;
use conveyor_domain::export::{Progress, State};
use conveyor_domain::{Export, ExportFormat, ExportId};
use schemars::JsonSchema;
use serde::Serialize;

/// The format that a request asks for, if it has a body at all.
pub(crate) fn parse_format(body: Option<&[u8]>, warnings: &Warnings) -> Result<ExportFormat> {
    let Some(body) = body else { return Ok(ExportFormat::default()) };
    let fields = Fields::parse(body, &["format"], warnings)?;
    Ok(fields.get("format", "one of: zip, jsonl, csv")?.unwrap_or_default())
}

/// What an export that was just asked for is known by.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StartedExportJson {
    export_id: ExportId,
    #[schemars(extend("enum" = ["pending", "running", "completed", "failed"]))]
    status: &'static str,
    format: ExportFormat,
    created_at: Time,
    expires_at: Time,
}

impl StartedExportJson {
    pub fn new(export: &Export) -> StartedExportJson {
        StartedExportJson {
            export_id: export.id,
            status: export.status(),
            format: export.format,
            created_at: Time(export.created),
            expires_at: Time(export.expires()),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExportJson<'a> {
    export_id: ExportId,
    #[schemars(extend("enum" = ["pending", "running", "completed", "failed"]))]
    status: &'static str,
    format: ExportFormat,
    progress: ProgressJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    download_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    download_url_expires_at: Option<Time>,
    created_at: Time,
    expires_at: Time,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ProgressJson {
    tasks_done: u32,
    tasks_total: u32,
    bytes: u64,
}

impl<'a> ExportJson<'a> {
    pub fn new(export: &'a Export, download: Option<Link>) -> ExportJson<'a> {
        let (download_url, expires) = download.map(|link| (link.url, Time(link.expires))).unzip();
        let Progress { tasks_done, tasks_total, bytes } = export.progress;
        let error = match &export.state {
            State::Failed { error } => Some(error.as_str()),
            State::Pending { .. }
            | State::Running { .. }
            | State::Completed { .. }
            | State::Removed { .. } => None,
        };
        ExportJson {
            export_id: export.id,
            status: export.status(),
            format: export.format,
            progress: ProgressJson { tasks_done, tasks_total, bytes },
            error,
            download_url,
            download_url_expires_at: expires,
            created_at: Time(export.created),
            expires_at: Time(export.expires()),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExportsJson<'a> {
    pub exports: Vec<ExportJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
