//! The tasks of a run as rows: JSON Lines, or CSV.

use conveyor_domain::export::spreadsheet::cell;
use conveyor_domain::job::retention::is_expired;
use conveyor_domain::{
    FailureClass, Format, JobSpec, Metadata, Method, Problem, RunId, Task, TaskStatus, Timestamp, rerun,
};
use serde::Serialize;

pub(crate) const CSV_HEADER: &str = "task_id,external_id,method,url,metadata,status,type,http_status,error_class,error,source_run_id,created_at,updated_at\r\n";

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

    pub fn write_jsonl(&self, out: &mut String) {
        out.push_str(&json(self));
        out.push('\n');
    }

    pub fn write_csv(&self, out: &mut String) {
        let metadata = if self.metadata.is_empty() { String::new() } else { json(self.metadata) };
        let status = self.http_status.map(|status| status.to_string()).unwrap_or_default();
        let error = self.error.map(json).unwrap_or_default();
        let source = self.source_run_id.map(|run| run.to_string()).unwrap_or_default();
        let cells = [
            self.task_id.as_str(),
            self.external_id.unwrap_or_default(),
            self.method.as_str(),
            self.url,
            &metadata,
            self.status,
            self.format.map_or("", Format::as_str),
            &status,
            self.error_class.unwrap_or_default(),
            &error,
            &source,
            &self.created_at,
            &self.updated_at,
        ];
        for (n, text) in cells.into_iter().enumerate() {
            out.push_str(if n == 0 { "" } else { "," });
            out.push_str(&cell(text));
        }
        out.push_str("\r\n");
    }
}

/// What is written here has text for keys: there is nothing in it that JSON could not say.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
