//! What this client reads of a job's limits and leases.

use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Debug, Deserialize)]
pub struct Limits {
    pub job_id: String,
    pub run_id: String,
    pub name: Option<String>,
    pub max_inflight: u64,
    pub in_flight: u64,
    pub rate_limit: Option<Rate>,
    #[serde(default)]
    pub retry: Map<String, Value>,
    #[serde(default)]
    pub holders: Vec<Holder>,
    pub queue: Queue,
    #[serde(default)]
    pub domains: Vec<Domain>,
    pub waiting: Waiting,
}

#[derive(Debug, Deserialize)]
pub struct Rate {
    pub per_second: f64,
    pub burst: u32,
    pub tokens: Option<u64>,
    pub next_start_at: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct Holder {
    pub worker: String,
    pub permits: u64,
    pub expires_at: String,
}

#[derive(Debug, Deserialize)]
pub struct Queue {
    pub visible: u64,
    pub hidden: u64,
    #[serde(default)]
    pub at_least: bool,
}

#[derive(Debug, Deserialize)]
pub struct Domain {
    pub domain: String,
    pub held: u64,
    pub max_inflight: Option<u64>,
    pub rate_limit: Option<Rate>,
    pub held_until: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct Waiting {
    pub reason: String,
    pub detail: String,
}

impl Waiting {
    pub fn is_working(&self) -> bool {
        self.reason == "working"
    }

    pub fn is_ended(&self) -> bool {
        self.reason == "ended"
    }

    /// `capped: Workers hold 5 permits, and ...`
    pub fn line(&self) -> String {
        format!("{}: {}", self.reason, self.detail)
    }
}

/// What a job says about itself, as far as a change can keep a part of it.
#[derive(Debug, Deserialize)]
pub struct Present {
    pub rate_limit: Option<Rate>,
    #[serde(default)]
    pub retry: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
pub struct Lease {
    pub job_id: String,
    pub name: Option<String>,
    pub max_inflight: u64,
    pub held: u64,
    #[serde(default)]
    pub holders: Vec<Holder>,
    pub waiting: Waiting,
}

impl From<Limits> for Lease {
    fn from(limits: Limits) -> Lease {
        let Limits { job_id, name, max_inflight, in_flight: held, holders, waiting, .. } = limits;
        Lease { job_id, name, max_inflight, held, holders, waiting }
    }
}
