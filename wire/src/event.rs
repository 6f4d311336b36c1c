use crate::Time;
use conveyor_domain::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

/// Something that happened to a job.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    pub id: u64,
    #[serde(rename = "type")]
    pub kind: String,
    pub at: Time,
    /// None of what happened to a scheduled job before it had one.
    pub run_id: Option<RunId>,
    #[schemars(with = "Map<String, Value>")]
    pub data: Value,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Events {
    pub events: Vec<Event>,
    pub next_cursor: Option<String>,
}
