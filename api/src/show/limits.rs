//! What workers share of a job's limits and of a site's, as operators see it (SPEC 6.7, 10).

use super::Time;
use crate::waiting::Waiting;
use conveyor_domain::dispatch::grant::Holding;
use conveyor_domain::{BudgetView, Job, Rate, Timestamp, WorkerId};
use conveyor_store::port::{Depth, RunView};
use conveyor_wire as wire;
use conveyor_wire::IngestState;

/// What one look saw of a job's dispatch.
#[derive(Debug)]
pub(crate) struct Look {
    pub depth: Depth,
    pub budget: BudgetView,
    /// Of the latest run, if tasks of it are still to come and none is queued.
    pub list: Option<IngestState>,
    pub now: Timestamp,
}

impl Look {
    fn waiting(&self, view: (&Job, &RunView)) -> wire::Waiting {
        let Waiting { reason, until, detail } =
            Waiting::of(view, self.depth, &self.budget, self.list, self.now);
        wire::Waiting { reason: reason.into(), until: until.map(Time), detail }
    }
}

pub(crate) fn rate(rate: Rate) -> wire::Rate {
    wire::Rate { per_second: rate.per_second(), burst: rate.burst() }
}

pub(crate) fn limits(
    (job, latest): (&Job, &RunView),
    look: &Look,
    domains: &[(String, BudgetView)],
) -> wire::Limits {
    let (spec, budget) = (&job.spec, &look.budget);
    wire::Limits {
        job_id: job.id,
        run_id: latest.run.id,
        name: spec.name.clone(),
        max_inflight: spec.max_inflight,
        in_flight: budget.held(),
        rate_limit: spec.rate.map(|rate| rate_state(rate, budget, look.now)),
        retry: spec.retry,
        holders: holders(budget),
        queue: queue(look.depth),
        domains: domains.iter().map(|(name, budget)| domain(name, budget, look.now)).collect(),
        waiting: look.waiting((job, latest)),
    }
}

/// Of a budget that nobody took from yet, or not by this rate: all of it is there.
fn rate_state(rate: Rate, budget: &BudgetView, now: Timestamp) -> wire::RateState {
    wire::RateState {
        per_second: rate.per_second(),
        burst: rate.burst(),
        tokens: budget.tokens.unwrap_or(rate.burst()),
        next_start_at: Time(budget.next_start.unwrap_or(now)),
    }
}

fn holders(budget: &BudgetView) -> Vec<wire::Holder> {
    let holder = |(worker, Holding { permits, expires }): &(WorkerId, Holding)| wire::Holder {
        worker: *worker,
        permits: *permits,
        expires_at: Time(*expires),
    };
    budget.holders.iter().map(holder).collect()
}

fn domain(domain: &str, budget: &BudgetView, now: Timestamp) -> wire::Domain {
    wire::Domain {
        domain: domain.to_owned(),
        held: budget.held(),
        max_inflight: budget.limits.max_inflight,
        rate_limit: budget.limits.rate.map(|rate| rate_state(rate, budget, now)),
        held_until: budget.held_until.map(Time),
    }
}

/// Who holds what of one live run.
pub(crate) fn lease((job, latest): (&Job, &RunView), look: &Look) -> wire::Lease {
    wire::Lease {
        job_id: job.id,
        run_id: latest.run.id,
        name: job.spec.name.clone(),
        max_inflight: job.spec.max_inflight,
        held: look.budget.held(),
        holders: holders(&look.budget),
        waiting: look.waiting((job, latest)),
    }
}

fn queue(Depth { visible, hidden, at_least }: Depth) -> wire::Queue {
    wire::Queue { visible, hidden, at_least }
}
