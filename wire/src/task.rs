use crate::{Open, Spend, Time};
use conveyor_domain::task_input::Reason;
use conveyor_domain::{Format, Metadata, Method, Problem, RunId, TaskId, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// A row of a results list. The task's request body and parameters are not repeated: they may hold secrets.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    pub task_id: TaskId,
    pub external_id: Option<String>,
    pub run_id: RunId,
    pub url: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: Metadata,
    pub method: Option<Open<Method>>,
    pub status: Open<TaskStatus>,
    #[serde(rename = "type")]
    pub format: Option<Open<Format>>,
    pub result_url: Option<String>,
    pub result_url_expires_at: Option<Time>,
    pub error: Option<Problem>,
    /// The run that did it, if this row was handed down from an earlier run.
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

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Results {
    pub results: Vec<Task>,
    pub next_cursor: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct History {
    pub events: Vec<Attempt>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    pub started_at: Time,
    pub ended_at: Time,
    pub attempt: u32,
    pub error: Option<Problem>,
    pub spend: Option<Spend>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct InvalidTask {
    pub index: usize,
    /// Of the list that it came from, if that has lines.
    pub line: Option<u64>,
    pub reason: Open<Reason>,
    pub value: String,
}
