use crate::{Cursor, Open, Time};
use conveyor_domain::{JobId, RetryChoice, RunId, WorkerId, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// How many tasks begin in a second.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"burst": 5, "per_second": 5.0}]))]
pub struct Rate {
    /// Per second, on average.
    pub per_second: f64,
    /// How many at once. Left out: what comes in a second.
    pub burst: u32,
}

/// What all workers together may do at one site.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"burst": 5, "max_inflight": 100, "per_second": 5.0}]))]
pub struct DomainLimit {
    /// Per second, on average.
    pub per_second: Option<f64>,
    /// How many at once. Left out: what comes in a second.
    pub burst: Option<u32>,
    /// How many tasks may be in flight at once.
    pub max_inflight: Option<u32>,
}

/// What a job may do, what workers hold of it, and why it waits.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    pub job_id: JobId,
    pub run_id: RunId,
    /// A name for people.
    #[schemars(extend("examples" = ["nightly prices"]))]
    pub name: Option<String>,
    /// How many tasks may be in flight at once.
    pub max_inflight: u32,
    /// Permits that workers hold.
    pub in_flight: u32,
    pub rate_limit: Option<RateState>,
    #[serde(default, skip_serializing_if = "RetryChoice::is_default")]
    pub retry: RetryChoice,
    /// Which workers hold permits.
    pub holders: Vec<Holder>,
    pub queue: Queue,
    /// Budgets of sites that the caller's jobs used lately.
    pub domains: Vec<Domain>,
    /// Why no more is started right now.
    pub waiting: Waiting,
}

/// A rate, and what is left of it right now.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [
    {"burst": 5, "next_start_at": "2026-01-01T00:00:05.450Z", "per_second": 5.0, "tokens": 5}
]))]
pub struct RateState {
    /// Per second, on average.
    pub per_second: f64,
    /// How many at once. Left out: what comes in a second.
    pub burst: u32,
    /// How many may begin at once right now.
    pub tokens: u32,
    /// When the next may begin.
    pub next_start_at: Time,
}

/// A worker that holds permits, until when unless it renews them.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Holder {
    pub worker: WorkerId,
    /// How many.
    pub permits: u32,
    /// Until when, unless they are renewed.
    pub expires_at: Time,
}

/// Messages that wait, and those that are worked on.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"at_least": true, "hidden": 12, "visible": 10000}]))]
pub struct Queue {
    /// Those that can be received now.
    pub visible: u64,
    /// Those that are worked on, or wait.
    pub hidden: u64,
    /// Counting ended there: there may be more of them. Otherwise it is left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

/// The budget of a site.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Domain {
    /// The host.
    #[schemars(extend("examples" = ["example.com"]))]
    pub domain: String,
    /// Permits that workers hold.
    pub held: u32,
    /// How many tasks may be in flight there at once.
    pub max_inflight: Option<u32>,
    pub rate_limit: Option<RateState>,
    /// Until when nothing is started there.
    pub held_until: Option<Time>,
}

/// Why no more is started right now.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"detail": "Workers are at it.", "reason": "working"}]))]
pub struct Waiting {
    pub reason: Open<WaitingReason>,
    /// Until when.
    pub until: Option<Time>,
    /// The same, as a sentence for people.
    pub detail: String,
}

words! {
    /// The first that fits. `ended`: the run has. `paused`: it is. `idle`: an open job with nothing left to do.
    /// `nothing_queued`: all tasks are in flight, or wait for a retry. `gateway_backoff`: the gateway asked for time
    /// until then. `rate_limited`: `rate_limit` is used up until then. `capped`: workers hold all `max_inflight`
    /// permits. `domain_budget`: tasks wait for a domain until about then; `detail` names it. `no_worker`: tasks
    /// wait, and no worker takes them. `working`: nothing is in the way.
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

/// A live run, and who holds permits of it.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Lease {
    pub job_id: JobId,
    pub run_id: RunId,
    /// A name for people.
    #[schemars(extend("examples" = ["nightly prices"]))]
    pub name: Option<String>,
    /// How many tasks may be in flight at once.
    pub max_inflight: u32,
    /// Permits that workers hold.
    pub held: u32,
    /// Which workers hold permits.
    pub holders: Vec<Holder>,
    /// Why no more is started right now.
    pub waiting: Waiting,
}

/// A page of live runs.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Leases {
    pub leases: Vec<Lease>,
    #[schemars(with = "Option<Cursor>")]
    pub next_cursor: Option<String>,
}
