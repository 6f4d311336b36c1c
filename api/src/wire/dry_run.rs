//! What a submit would come to (SPEC 6.23).

use crate::dry_run::Pace;
use crate::invalid_tasks::InvalidTask;
use conveyor_domain::Estimate;
use conveyor_domain::ingest::estimate::{Basis, Bound};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DryRunJson {
    pub dry_run: bool,
    pub rows: u64,
    pub valid: u64,
    pub invalid: u64,
    pub invalid_tasks: Vec<InvalidTask>,
    /// Valid rows whose method, URL and body were there before.
    pub duplicates: u64,
    pub domains: DomainsJson,
    pub would_answer: u16,
    pub estimate: EstimateJson,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DomainCounts")]
pub(crate) struct DomainsJson {
    pub count: usize,
    /// False if there are more than can be told apart: then `count` is the least.
    pub exact: bool,
    pub top: Vec<DomainJson>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DomainCount")]
pub(crate) struct DomainJson {
    pub domain: String,
    pub tasks: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EstimateJson {
    pub seconds: f64,
    pub bound_by: Bound,
    pub assumes: AssumesJson,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AssumesJson {
    pub seconds_per_task: f64,
    pub basis: Basis,
    /// Left out if nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_tasks: Option<u32>,
    pub attempts_per_task: u32,
    pub max_inflight: u32,
}

impl EstimateJson {
    pub fn new(estimate: Estimate, pace: Pace, max_inflight: u32) -> EstimateJson {
        // More than a millisecond is more than is known.
        let rounded = |seconds: f64| (seconds * 1000.0).round() / 1000.0;
        let assumes = AssumesJson {
            seconds_per_task: rounded(pace.seconds_per_task),
            basis: pace.basis,
            measured_tasks: Some(pace.tasks).filter(|tasks| *tasks > 0),
            attempts_per_task: 1,
            max_inflight,
        };
        EstimateJson { seconds: rounded(estimate.seconds), bound_by: estimate.bound_by, assumes }
    }
}
