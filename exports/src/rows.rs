//! The tasks of a run as rows: JSON Lines, or CSV.

use conveyor_domain::export::inert;
use conveyor_domain::job::retention::is_expired;
use conveyor_domain::limits::KIB;
use conveyor_domain::{
    FailureClass, Format, JobSpec, Metadata, Method, Problem, RunId, Task, TaskStatus, Timestamp, rerun,
};
use csv_async::{AsyncWriter, AsyncWriterBuilder, Terminator};
use serde::Serialize;
use std::borrow::Cow;
use std::io;
use tokio::io::{AsyncWrite, AsyncWriteExt, BufWriter};

/// About how much of rows is sent at once.
const PIECE_BYTES: usize = 256 * KIB;
const COLUMNS: [&str; 13] = [
    "task_id",
    "external_id",
    "method",
    "url",
    "metadata",
    "status",
    "type",
    "http_status",
    "error_class",
    "error",
    "source_run_id",
    "created_at",
    "updated_at",
];

/// What a list of results says of a task (SPEC 10), without where its body is: that would be out of date.
#[derive(Debug, Serialize)]
pub(crate) struct Row<'a> {
    task_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<&'a str>,
    method: Method,
    url: &'a str,
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    metadata: &'a Metadata,
    status: &'static str,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    format: Option<Format>,
    #[serde(skip_serializing_if = "Option::is_none")]
    http_status: Option<u16>,
    /// As a rerun can ask for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    error_class: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Problem>,
    /// The run that did it, if this row was handed down from an earlier run.
    #[serde(skip_serializing_if = "Option::is_none")]
    source_run_id: Option<RunId>,
    created_at: String,
    updated_at: String,
}

impl<'a> Row<'a> {
    pub fn new(task: &'a Task, spec: &JobSpec, now: Timestamp) -> Row<'a> {
        let expired = is_expired(task, spec, now);
        let result = task.result.as_ref().filter(|_| task.status == TaskStatus::Successful);
        let failed = task.status == TaskStatus::Failed;
        let class = task.class.filter(|_| failed);
        Row {
            task_id: task.id.to_string(),
            external_id: task.input.external_id.as_deref(),
            method: task.input.method,
            url: &task.input.url,
            metadata: &task.input.metadata,
            status: if expired { "expired" } else { task.status.as_str() },
            format: result.map(|result| result.format),
            http_status: rerun::http_status(task),
            error_class: class.map(FailureClass::as_str),
            error: task.error.as_ref().filter(|error| failed || error.is_damage()),
            source_run_id: task.inherited.map(|from| from.run),
            created_at: task.created.to_string(),
            updated_at: task.updated.to_string(),
        }
    }

    fn cells(&self) -> [Cow<'_, str>; COLUMNS.len()] {
        let metadata = if self.metadata.is_empty() { String::new() } else { json(self.metadata) };
        [
            self.task_id.as_str().into(),
            self.external_id.unwrap_or_default().into(),
            self.method.as_str().into(),
            self.url.into(),
            metadata.into(),
            self.status.into(),
            self.format.map_or("", Format::as_str).into(),
            self.http_status.map(|status| status.to_string()).unwrap_or_default().into(),
            self.error_class.unwrap_or_default().into(),
            self.error.map(json).unwrap_or_default().into(),
            self.source_run_id.map(|run| run.to_string()).unwrap_or_default().into(),
            self.created_at.as_str().into(),
            self.updated_at.as_str().into(),
        ]
    }
}

/// What is written here has text for keys: there is nothing in it that JSON could not say.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Writes rows to a file in pieces of about [`PIECE_BYTES`].
pub(crate) enum Writer<W: AsyncWrite + Unpin> {
    JsonLines(BufWriter<W>),
    Csv(Box<AsyncWriter<W>>),
}

impl<W: AsyncWrite + Unpin + Send> Writer<W> {
    pub fn json_lines(file: W) -> Writer<W> {
        Writer::JsonLines(BufWriter::with_capacity(PIECE_BYTES, file))
    }

    pub async fn csv(file: W) -> io::Result<Writer<W>> {
        let mut writer = AsyncWriterBuilder::new()
            .terminator(Terminator::CRLF)
            .buffer_capacity(PIECE_BYTES)
            .create_writer(file);
        writer.write_record(COLUMNS).await.map_err(io::Error::from)?;
        Ok(Writer::Csv(Box::new(writer)))
    }

    pub async fn write(&mut self, row: &Row<'_>) -> io::Result<()> {
        match self {
            Writer::JsonLines(file) => file.write_all((json(row) + "\n").as_bytes()).await,
            Writer::Csv(file) => {
                let cells = row.cells();
                for cell in &cells {
                    file.write_field(inert(cell).as_bytes()).await.map_err(io::Error::from)?;
                }
                file.write_record(None::<&[u8]>).await.map_err(io::Error::from)
            }
        }
    }

    pub async fn flush(&mut self) -> io::Result<()> {
        match self {
            Writer::JsonLines(file) => file.flush().await,
            Writer::Csv(file) => file.flush().await,
        }
    }
}
