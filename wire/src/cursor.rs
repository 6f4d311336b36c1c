use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The place after a page: the `cursor` of the next one. It is missing on the last page; a page may be short or empty
/// although more follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend("examples" = ["AZr9k2x7"]))]
pub struct Cursor(pub String);
