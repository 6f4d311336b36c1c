use crate::{Open, Time};
use conveyor_domain::words;
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

words! {
    #[derive(JsonSchema)]
    #[schemars(inline)]
    pub enum HealthStatus as json {
        Ok = "ok",
        Ready = "ready",
    }
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

words! {
    #[derive(JsonSchema)]
    #[schemars(inline)]
    pub enum Removal as json {
        Running = "running",
        Halted = "halted",
    }
}
