use schemars::JsonSchema;
use serde::Serialize;

/// What a probe is told.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HealthJson {
    #[schemars(extend("enum" = ["ok", "ready"]))]
    pub status: &'static str,
    /// Left out if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
