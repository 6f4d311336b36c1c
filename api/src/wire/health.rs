use schemars::JsonSchema;
use serde::Serialize;

/// What a probe is told.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HealthJson {
    #[schemars(extend("enum" = ["ok", "ready"]))]
    pub status: &'static str,
}
