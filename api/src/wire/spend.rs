use conveyor_domain::Spend;
use schemars::JsonSchema;
use serde::Serialize;

/// What was charged, as far as the gateway said so.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(crate) struct SpendJson {
    credits: u64,
    cost: f64,
}

impl SpendJson {
    /// Nothing where nothing was charged.
    pub fn of(spend: Spend) -> Option<SpendJson> {
        (!spend.is_zero()).then(|| SpendJson { credits: spend.credits, cost: spend.cost() })
    }
}
