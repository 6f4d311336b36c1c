use crate::{Cursor, Time};
use conveyor_domain::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

/// One entry of the timeline of a job.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Its number in the timeline of the job; a stream goes on after it.
    pub id: u64,
    /// What happened.
    #[serde(rename = "type")]
    pub kind: String,
    pub at: Time,
    /// None of what happened to a scheduled job before it had one.
    pub run_id: Option<RunId>,
    /// What there is to say about it.
    #[schemars(with = "Map<String, Value>")]
    #[schemars(extend("examples" = [{"total": 2}]))]
    pub data: Value,
}

/// A page of events, oldest first.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Events {
    /// What happened, oldest first.
    pub events: Vec<Event>,
    #[schemars(with = "Option<Cursor>")]
    pub next_cursor: Option<String>,
}
