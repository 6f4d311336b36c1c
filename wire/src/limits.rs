use crate::{Open, Time};
use conveyor_domain::{JobId, RetryChoice, RunId, WorkerId, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Rate {
    pub per_second: f64,
    pub burst: u32,
}

/// What all workers together may do at one site.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DomainLimit {
    pub per_second: Option<f64>,
    pub burst: Option<u32>,
    pub max_inflight: Option<u32>,
}

/// The answer to `GET /v1/jobs/{job}/limits`.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    pub job_id: JobId,
    pub run_id: RunId,
    pub name: Option<String>,
    pub max_inflight: u32,
    pub in_flight: u32,
    pub rate_limit: Option<RateState>,
    #[serde(default, skip_serializing_if = "RetryChoice::is_default")]
    pub retry: RetryChoice,
    pub holders: Vec<Holder>,
    pub queue: Queue,
    pub domains: Vec<Domain>,
    pub waiting: Waiting,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RateState {
    pub per_second: f64,
    pub burst: u32,
    pub tokens: u32,
    pub next_start_at: Time,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Holder {
    pub worker: WorkerId,
    pub permits: u32,
    pub expires_at: Time,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Queue {
    pub visible: u64,
    pub hidden: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Domain {
    pub domain: String,
    pub held: u32,
    pub max_inflight: Option<u32>,
    pub rate_limit: Option<RateState>,
    pub held_until: Option<Time>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Waiting {
    pub reason: Open<WaitingReason>,
    pub until: Option<Time>,
    pub detail: String,
}

words! {
    #[derive(JsonSchema)]
    pub enum WaitingReason as json {
        Ended = "ended",
        Paused = "paused",
        Idle = "idle",
        NothingQueued = "nothing_queued",
        GatewayBackoff = "gateway_backoff",
        RateLimited = "rate_limited",
        Capped = "capped",
        DomainBudget = "domain_budget",
        NoWorker = "no_worker",
        Working = "working",
    }
}

/// Who holds what of one live run.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Lease {
    pub job_id: JobId,
    pub run_id: RunId,
    pub name: Option<String>,
    pub max_inflight: u32,
    pub held: u32,
    pub holders: Vec<Holder>,
    pub waiting: Waiting,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Leases {
    pub leases: Vec<Lease>,
    pub next_cursor: Option<String>,
}
