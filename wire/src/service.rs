use crate::{Open, Time};
use conveyor_domain::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// The answer to a probe.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// That it is so: `ok`, it runs; `ready`, it can serve.
    pub status: Open<HealthStatus>,
    /// Left out if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("examples" = [["The clock of this machine is off by 61 s."]]))]
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

/// The time that the process goes by, and whether removals go by it.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Clock {
    /// The time that the process goes by.
    pub now: Time,
    /// By how much the clock of the machine is ahead of that.
    pub skew_ms: Option<i64>,
    /// Left out until a sweeper has looked.
    pub seen_at: Option<Time>,
    /// Whether things are removed because of their age: `running`, they are; `halted`, the time is in doubt, and
    /// nothing is removed.
    pub removal: Open<Removal>,
    /// When the time is believed, if it holds until then.
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
