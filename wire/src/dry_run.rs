use crate::{InvalidTask, Open};
use conveyor_domain::ingest::estimate::{Basis, Bound};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// What a submit would come to (SPEC 6.23).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DryRun {
    pub dry_run: bool,
    pub rows: u64,
    pub valid: u64,
    pub invalid: u64,
    pub invalid_tasks: Vec<InvalidTask>,
    /// Valid rows whose method, URL and body were there before.
    pub duplicates: u64,
    pub domains: DomainCounts,
    pub would_answer: u16,
    pub estimate: Estimate,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DomainCounts {
    pub count: usize,
    /// False if there are more than can be told apart: then `count` is the least.
    pub exact: bool,
    pub top: Vec<DomainCount>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DomainCount {
    pub domain: String,
    pub tasks: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    pub seconds: f64,
    pub bound_by: Open<Bound>,
    pub assumes: Assumes,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Assumes {
    pub seconds_per_task: f64,
    pub basis: Open<Basis>,
    /// Left out if nothing was.
    pub measured_tasks: Option<u32>,
    pub attempts_per_task: u32,
    pub max_inflight: u32,
}
