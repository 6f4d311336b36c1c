//! The worker: takes tasks that may start, calls the gateway, keeps the result, settles and counts (SPEC 8).
//!
//! It knows the ports and a gateway; never a backend, never another role. Everything it holds in memory can be lost at any
//! moment: rows are truth, and a message that was not acknowledged comes back.

mod batch;
mod breaker;
mod budgets;
mod context;
mod dispatch;
mod execute;
mod flight;
pub mod gateway;
mod outage;
mod pack;
mod parked;
mod prediction;
mod receives;
mod room;
mod runs;
mod settle;
mod sites;
mod slot;
mod turns;
mod unused;
mod waiting;

pub use dispatch::run;

use conveyor_domain::{Clock, DomainLimits, Entropy, RetryPolicy, Secret, WorkerId, limits};
use conveyor_store::Backend;
use gateway::{Credential, Gateway};
use outage::Outages;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// Tasks in flight or being settled, over all jobs.
    pub slots: u32,
    pub retry: RetryPolicy,
    pub claims_max: u32,
    pub shutdown_grace: Duration,
    /// How long a message that is worked on stays hidden without being extended.
    pub visibility: Duration,
    /// Sent to the gateway instead of the callers' own keys.
    pub gateway_credential: Option<Credential>,
    /// Budgets of sites, whatever the jobs say.
    pub domain_limits: DomainLimits,
    /// Permits are taken before messages are received. Off only to measure what that is worth.
    pub gate: bool,
}

impl Default for WorkerConfig {
    fn default() -> Self {
        WorkerConfig {
            slots: limits::SLOTS,
            retry: RetryPolicy::default(),
            claims_max: limits::CLAIMS_MAX,
            shutdown_grace: limits::SHUTDOWN_GRACE,
            visibility: limits::VISIBILITY,
            gateway_credential: None,
            domain_limits: DomainLimits::default(),
            gate: true,
        }
    }
}

/// What every part of one worker incarnation shares.
#[derive(Debug)]
pub struct Worker {
    id: WorkerId,
    backend: Backend,
    gateway: Arc<dyn Gateway>,
    secret: Secret,
    clock: Arc<dyn Clock>,
    entropy: Arc<Entropy>,
    config: WorkerConfig,
    outages: Outages,
}

impl Worker {
    pub fn new(
        backend: Backend,
        gateway: Arc<dyn Gateway>,
        secret: Secret,
        clock: Arc<dyn Clock>,
        entropy: Arc<Entropy>,
        config: WorkerConfig,
    ) -> Worker {
        let id = WorkerId::new(clock.now(), &entropy);
        Worker { id, backend, gateway, secret, clock, entropy, config, outages: Outages::default() }
    }
}
