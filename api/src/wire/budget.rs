//! What workers share of a job's limits and of a site's, as operators see it (SPEC 6.7, 10).

use super::Time;
use super::ingest::ListState;
use super::limits::RateJson;
use crate::waiting::{Reason, Waiting};
use conveyor_domain::dispatch::grant::Holding;
use conveyor_domain::{BudgetView, JobId, Rate, RetryChoice, RunId, Timestamp, WorkerId};
use conveyor_store::port::{JobView, ShownDepth};
use schemars::JsonSchema;
use serde::Serialize;

/// What one look saw of a job's dispatch.
#[derive(Debug)]
pub(crate) struct Look {
    pub depth: ShownDepth,
    pub budget: BudgetView,
    /// Of the latest run, if tasks of it are still to come and none is queued.
    pub list: Option<ListState>,
    pub now: Timestamp,
}

impl Look {
    fn waiting(&self, view: &JobView) -> WaitingJson {
        Waiting::of(view, self.depth, &self.budget, self.list, self.now).into()
    }
}

/// The answer to `GET /v1/jobs/{job}/limits`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LimitsJson<'a> {
    job_id: JobId,
    run_id: RunId,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    max_inflight: u32,
    in_flight: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_limit: Option<RateStateJson>,
    #[serde(skip_serializing_if = "RetryChoice::is_default")]
    retry: RetryChoice,
    holders: Vec<HolderJson>,
    queue: QueueJson,
    domains: Vec<DomainJson<'a>>,
    waiting: WaitingJson,
}

impl<'a> LimitsJson<'a> {
    pub fn new(view: &'a JobView, look: &Look, domains: &'a [(String, BudgetView)]) -> LimitsJson<'a> {
        let (spec, budget) = (&view.job.spec, &look.budget);
        LimitsJson {
            job_id: view.job.id,
            run_id: view.latest.run.id,
            name: spec.name.as_deref(),
            max_inflight: spec.max_inflight,
            in_flight: budget.held(),
            rate_limit: spec.rate.map(|rate| RateStateJson::new(rate, budget, look.now)),
            retry: spec.retry,
            holders: holders(budget),
            queue: look.depth.into(),
            domains: domains.iter().map(|(name, budget)| DomainJson::new(name, budget, look.now)).collect(),
            waiting: look.waiting(view),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct RateStateJson {
    #[serde(flatten)]
    rate: RateJson,
    tokens: u32,
    next_start_at: Time,
}

impl RateStateJson {
    /// Of a budget that nobody took from yet, or not by this rate: all of it is there.
    fn new(rate: Rate, budget: &BudgetView, now: Timestamp) -> RateStateJson {
        RateStateJson {
            rate: rate.into(),
            tokens: budget.tokens.unwrap_or(rate.burst()),
            next_start_at: Time(budget.next_start.unwrap_or(now)),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct HolderJson {
    worker: WorkerId,
    permits: u32,
    expires_at: Time,
}

fn holders(budget: &BudgetView) -> Vec<HolderJson> {
    let holder = |(worker, Holding { permits, expires }): &(WorkerId, Holding)| HolderJson {
        worker: *worker,
        permits: *permits,
        expires_at: Time(*expires),
    };
    budget.holders.iter().map(holder).collect()
}

#[derive(Debug, Serialize, JsonSchema)]
struct QueueJson {
    visible: u64,
    hidden: u64,
    #[serde(skip_serializing_if = "is_exact")]
    at_least: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_exact(at_least: &bool) -> bool {
    !at_least
}

impl From<ShownDepth> for QueueJson {
    fn from(ShownDepth { depth, at_least }: ShownDepth) -> QueueJson {
        QueueJson { visible: depth.visible, hidden: depth.hidden, at_least }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct DomainJson<'a> {
    domain: &'a str,
    held: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_inflight: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_limit: Option<RateStateJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    held_until: Option<Time>,
}

impl<'a> DomainJson<'a> {
    fn new(domain: &'a str, budget: &BudgetView, now: Timestamp) -> DomainJson<'a> {
        DomainJson {
            domain,
            held: budget.held(),
            max_inflight: budget.limits.max_inflight,
            rate_limit: budget.limits.rate.map(|rate| RateStateJson::new(rate, budget, now)),
            held_until: budget.held_until.map(Time),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct WaitingJson {
    reason: Reason,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Time>,
    detail: String,
}

impl From<Waiting> for WaitingJson {
    fn from(Waiting { reason, until, detail }: Waiting) -> WaitingJson {
        WaitingJson { reason, until: until.map(Time), detail }
    }
}

/// Who holds what of one live run.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LeaseJson<'a> {
    job_id: JobId,
    run_id: RunId,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    max_inflight: u32,
    held: u32,
    holders: Vec<HolderJson>,
    waiting: WaitingJson,
}

impl<'a> LeaseJson<'a> {
    pub fn new(view: &'a JobView, look: &Look) -> LeaseJson<'a> {
        LeaseJson {
            job_id: view.job.id,
            run_id: view.latest.run.id,
            name: view.job.spec.name.as_deref(),
            max_inflight: view.job.spec.max_inflight,
            held: look.budget.held(),
            holders: holders(&look.budget),
            waiting: look.waiting(view),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LeasesJson<'a> {
    pub leases: Vec<LeaseJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
