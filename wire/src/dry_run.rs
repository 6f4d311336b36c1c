use crate::{InvalidTask, Open};
use conveyor_domain::ingest::estimate::{Basis, Bound};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// What a submit would do.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [
    {"domains": {"count": 1, "exact": true, "top": [{"domain": "example.com", "tasks": 2}]}, "dry_run": true,
    "duplicates": 0, "estimate": {"assumes": {"attempts_per_task": 1, "basis": "measured", "max_inflight":
    100, "measured_tasks": 20, "seconds_per_task": 0.8}, "bound_by": "none", "seconds": 0.8}, "invalid": 1,
    "invalid_tasks": [{"index": 2, "reason": "malformed_url", "value": "htp://example"}], "rows": 3, "valid":
    2, "would_answer": 400}
]))]
pub struct DryRun {
    /// That nothing was made.
    pub dry_run: bool,
    /// Records that were read.
    pub rows: u64,
    /// Those that would become tasks.
    pub valid: u64,
    /// Those that would not.
    pub invalid: u64,
    /// Which, and why.
    pub invalid_tasks: Vec<InvalidTask>,
    /// Valid rows whose method, URL and body were there before.
    pub duplicates: u64,
    /// Hosts of valid rows.
    pub domains: DomainCounts,
    /// The status that the submit would be answered with: 201, 202, or 400 if the list would be refused for its rows.
    pub would_answer: u16,
    pub estimate: Estimate,
}

/// The hosts of valid rows.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DomainCounts {
    /// How many.
    pub count: usize,
    /// False if there are more than can be told apart: then `count` is the least.
    pub exact: bool,
    /// Those with most tasks.
    pub top: Vec<DomainCount>,
}

/// A host, and how many tasks it has.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DomainCount {
    /// The host.
    #[schemars(extend("examples" = ["example.com"]))]
    pub domain: String,
    /// Its tasks.
    pub tasks: u64,
}

/// How long a run would take.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// In seconds.
    pub seconds: f64,
    pub bound_by: Open<Bound>,
    pub assumes: Assumes,
}

/// What an estimate takes for granted.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [
    {"attempts_per_task": 1, "basis": "measured", "max_inflight": 100, "measured_tasks": 20,
    "seconds_per_task": 0.8}
]))]
pub struct Assumes {
    /// How long a task takes, from its claim to its end.
    pub seconds_per_task: f64,
    pub basis: Open<Basis>,
    /// Left out if nothing was.
    pub measured_tasks: Option<u32>,
    /// How often a task is tried.
    pub attempts_per_task: u32,
    /// How many tasks may be in flight at once.
    pub max_inflight: u32,
}
