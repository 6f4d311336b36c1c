use crate::{Open, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// What a probe is told.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    pub status: Open<HealthStatus>,
    /// Left out if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum HealthStatus {
    Ok,
    Ready,
}

/// What time it is, and whether removals go by it (SPEC 6.26).
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Clock {
    pub now: Time,
    pub skew_ms: Option<i64>,
    /// Left out until a sweeper has looked.
    pub seen_at: Option<Time>,
    pub removal: Open<Removal>,
    pub believed_at: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Removal {
    Running,
    Halted,
}
