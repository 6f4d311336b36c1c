use crate::{Cursor, ExternalId, MetadataBody, Open, Spend, Time};
use conveyor_domain::task_input::Reason;
use conveyor_domain::{Format, Metadata, Method, Problem, RunId, TaskId, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// A task, and what became of it. Its request body and parameters are not repeated: they may hold secrets.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    pub task_id: TaskId,
    #[schemars(with = "Option<ExternalId>")]
    pub external_id: Option<String>,
    pub run_id: RunId,
    /// What was fetched.
    #[schemars(extend("examples" = ["https://example.com/1"]))]
    pub url: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "MetadataBody")]
    pub metadata: Metadata,
    /// The method that the target is called with: `POST`. Left out: `GET`.
    #[schemars(extend("examples" = ["POST"]))]
    pub method: Option<Open<Method>>,
    /// `pending`: it waits, for its first attempt or the next. `processing`: a worker has it. `successful`: it has a
    /// result. `failed`: for good. `expired`: it was successful, and its result is past its time.
    pub status: Open<TaskStatus>,
    /// The format of the body, once there is one.
    #[serde(rename = "type")]
    pub format: Option<Open<Format>>,
    /// Where the body is. Signed: it needs no key, and is valid for a limited time.
    #[schemars(extend("examples" = ["https://api.example.com/v1/content/01KCX5T0Q8H2V4M6N8P0R2S4T6/01KCX5T0Q8M3Z7C9D1F5G7H9J1/000000003c9e2d3a1b5f7a9c0e4d6b82?caller=01KCX5Z3E5F7G9H1J3K5M7N9P3&expires=1767232800&signature=q0b3f1"]))]
    pub result_url: Option<String>,
    /// Until when `result_url` is valid. Another request gives a fresh one.
    pub result_url_expires_at: Option<Time>,
    pub error: Option<Problem>,
    /// The run that did it, if this row was inherited from an earlier run.
    pub source_run_id: Option<RunId>,
    pub created_at: Time,
    pub updated_at: Time,
}

words! {
    #[derive(JsonSchema)]
    #[schemars(inline)]
    pub enum TaskStatus as json {
        /// It waits, for its first attempt or the next.
        Pending = "pending",
        /// A worker has it.
        Processing = "processing",
        /// It has a result.
        Successful = "successful",
        /// For good.
        Failed = "failed",
        /// It was successful, and its result is past its time. Not a state: it is a matter of when somebody looks.
        Expired = "expired",
    }
}

impl From<conveyor_domain::TaskStatus> for TaskStatus {
    fn from(status: conveyor_domain::TaskStatus) -> TaskStatus {
        match status {
            conveyor_domain::TaskStatus::Pending => TaskStatus::Pending,
            conveyor_domain::TaskStatus::Processing => TaskStatus::Processing,
            conveyor_domain::TaskStatus::Successful => TaskStatus::Successful,
            conveyor_domain::TaskStatus::Failed => TaskStatus::Failed,
        }
    }
}

/// A page of tasks.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Results {
    /// The tasks of this page, in the order of the list.
    pub results: Vec<Task>,
    #[schemars(with = "Option<Cursor>")]
    pub next_cursor: Option<String>,
}

/// The attempts at a task.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// Attempts that came to an end, oldest first.
    pub events: Vec<Attempt>,
}

/// One attempt at a task that came to an end. Without `error` it was successful.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    /// When it began.
    pub started_at: Time,
    /// When it ended.
    pub ended_at: Time,
    /// Which attempt it was, from 1.
    pub attempt: u32,
    pub error: Option<Problem>,
    pub spend: Option<Spend>,
}

/// A task that cannot be taken, and why.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"index": 16, "reason": "malformed_url", "value": "htp://example"}]))]
pub struct InvalidTask {
    /// The place in the list, from 0.
    pub index: usize,
    /// Of the list that it came from, if that has lines.
    pub line: Option<u64>,
    pub reason: Open<Reason>,
    /// What was given, cut short.
    pub value: String,
}
