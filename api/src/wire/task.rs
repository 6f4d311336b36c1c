use super::Time;
use super::spend::SpendJson;
use crate::signed_url::Link;
use conveyor_domain::{Attempt, Format, Metadata, Method, Problem, RunId, Task, TaskId, TaskStatus};
use schemars::JsonSchema;
use serde::Serialize;

/// A successful task whose result is past its time. Not a state: it is a matter of when somebody looks.
const EXPIRED: &str = "expired";

/// A row of a results list. The task's request body and parameters are not repeated: they may hold secrets.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TaskJson<'a> {
    #[schemars(with = "TaskId")]
    task_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<&'a str>,
    run_id: RunId,
    url: &'a str,
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    metadata: &'a Metadata,
    #[serde(skip_serializing_if = "is_get")]
    method: Method,
    #[schemars(extend("enum" = ["pending", "processing", "successful", "failed", EXPIRED]))]
    status: &'static str,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    format: Option<Format>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_url_expires_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Problem>,
    /// The run that did it, if this row was handed down from an earlier run.
    #[serde(skip_serializing_if = "Option::is_none")]
    source_run_id: Option<RunId>,
    created_at: Time,
    updated_at: Time,
}

impl<'a> TaskJson<'a> {
    /// With the URL of its result, if it has one that can still be seen.
    pub fn new(run: RunId, task: &'a Task, expired: bool, result: Option<Link>) -> TaskJson<'a> {
        let successful = task.status == TaskStatus::Successful;
        let link = result.filter(|_| successful && !expired);
        let (result_url, expires) = link.map(|link| (link.url, Time(link.expires))).unzip();
        // A task that waits for another attempt may carry the error of the last one; that belongs to its history.
        // A damaged row is marked in whatever state it is (SPEC 6.14).
        let shown = |error: &&Problem| task.status == TaskStatus::Failed || error.is_damage();
        let error = task.error.as_ref().filter(shown);
        TaskJson {
            task_id: task.id.to_string(),
            external_id: task.input.external_id.as_deref(),
            run_id: run,
            url: &task.input.url,
            metadata: &task.input.metadata,
            method: task.input.method,
            status: if expired { EXPIRED } else { task.status.as_str() },
            format: task.result.as_ref().filter(|_| successful).map(|result| result.format),
            result_url,
            result_url_expires_at: expires,
            error,
            source_run_id: task.inherited.map(|from| from.run),
            created_at: Time(task.created),
            updated_at: Time(task.updated),
        }
    }
}

fn is_get(method: &Method) -> bool {
    *method == Method::Get
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ResultsJson<'a> {
    pub results: Vec<TaskJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HistoryJson<'a> {
    events: Vec<EventJson<'a>>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Attempt")]
struct EventJson<'a> {
    started_at: Time,
    ended_at: Time,
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Problem>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spend: Option<SpendJson>,
}

impl<'a> From<&'a [Attempt]> for HistoryJson<'a> {
    fn from(attempts: &'a [Attempt]) -> Self {
        let event = |attempt: &'a Attempt| EventJson {
            started_at: Time(attempt.started),
            ended_at: Time(attempt.ended),
            attempt: attempt.number,
            error: attempt.error.as_ref(),
            spend: SpendJson::of(attempt.spend),
        };
        HistoryJson { events: attempts.iter().map(event).collect() }
    }
}
