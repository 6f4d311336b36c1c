use crate::Open;
use conveyor_domain::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something of the body of a request that was ignored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// `unknown_field`: the request has no such field.
    pub code: Open<WarningCode>,
    /// Where it is: `rate_limit.per_secnd`, `tasks[3].urll`; of a staged list `rows[].urll`.
    #[schemars(extend("examples" = ["rate_limit.per_secnd"]))]
    pub field: String,
}

words! {
    #[derive(JsonSchema)]
    #[schemars(inline)]
    pub enum WarningCode as json {
        UnknownField = "unknown_field",
    }
}

impl Warning {
    pub fn unknown_field(field: String) -> Warning {
        Warning { code: WarningCode::UnknownField.into(), field }
    }
}

/// What is told beside an answer, as its last fields. As many as are named; the others are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Warnings {
    pub warnings: Vec<Warning>,
    #[serde(skip_serializing_if = "is_zero")]
    pub more_warnings: u64,
}

impl Warnings {
    pub fn is_empty(&self) -> bool {
        *self == Warnings::default()
    }
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}
