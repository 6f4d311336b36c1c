//! Budgets of the sites that tasks go to (SPEC 6.7). Where a task goes is known only once it is claimed: one that finds no
//! room goes back, and the next ones of its run are received only when there is some.

use crate::Worker;
use crate::budgets::{Budgets, Use};
use crate::context::RunContext;
use crate::prediction::Sites;
use conveyor_domain::grant::{DomainWait, Hold, Limits, Scope};
use conveyor_domain::{Timestamp, domains, limits};
use conveyor_store::port::ClaimedTask;
use std::collections::HashMap;
use std::time::Duration;

/// The budgets that a task draws on.
pub fn of(worker: &Worker, run: &RunContext, task: &ClaimedTask) -> Vec<(Scope, Limits)> {
    let (system, job) = (&worker.config.domain_limits, &run.job.spec.domain_limits);
    let found = domains::budgets(system, job, &task.input.url).into_iter();
    found
        .map(|(name, limit)| {
            let limits = Limits { revision: 0, max_inflight: limit.max_inflight, rate: limit.rate };
            (Scope::Domain(run.job.caller, name), limits)
        })
        .collect()
}

/// What a task needs of the sites' budgets, and what it already has of them.
#[derive(Debug)]
pub struct Needs {
    pub scopes: Vec<(Scope, Limits)>,
    pub uses: Vec<Use>,
}

impl Needs {
    /// What was taken for a task that then went elsewhere is of no use to it.
    pub fn new(scopes: Vec<(Scope, Limits)>, taken: Vec<Use>) -> Needs {
        let needed = |taken: &Use| scopes.iter().any(|(scope, _)| *scope == taken.share().scope);
        let uses = taken.into_iter().filter(needed).collect();
        Needs { scopes, uses }
    }

    fn missing(&self) -> impl Iterator<Item = &(Scope, Limits)> {
        self.scopes.iter().filter(|(scope, _)| !self.uses.iter().any(|has| has.share().scope == *scope))
    }

    /// Takes what is missing, or says what there is none of.
    fn take(&mut self, budgets: &Budgets, call: Duration, now: Timestamp) -> Result<(), Full> {
        let missing: Vec<(Scope, Limits)> = self.missing().cloned().collect();
        for (scope, limits) in missing {
            let share = budgets.share(&scope, limits);
            match share.take_soon(now) {
                Some(taken) => self.uses.push(taken),
                None => {
                    let Scope::Domain(_, domain) = scope else { continue };
                    let wait = DomainWait { domain, until: share.free_at(now) };
                    return Err(Full { wait, room_every: share.room_every(call) });
                }
            }
        }
        Ok(())
    }
}

/// A site that has no room.
#[derive(Debug)]
pub struct Full {
    pub wait: DomainWait,
    /// How often it has room for one more, about.
    pub room_every: Duration,
}

/// For every task, whether it may go where it wants to. Asks once a site, for all of them.
pub async fn admit(
    worker: &Worker,
    budgets: &Budgets,
    call: Duration,
    needs: &mut [Needs],
) -> Vec<Result<(), Full>> {
    let mut missing: HashMap<&Scope, (Limits, u32)> = HashMap::new();
    for (scope, limits) in needs.iter().flat_map(Needs::missing) {
        missing.entry(scope).or_insert((*limits, 0)).1 += 1;
    }
    for (scope, (limits, count)) in missing {
        let share = budgets.share(scope, limits);
        if share.room_soon(worker.clock.now()) < count {
            share.ask_now(worker, count).await;
        }
    }
    let now = worker.clock.now();
    needs.iter_mut().map(|need| need.take(budgets, call, now)).collect()
}

/// The sites that all of them go to, if they all go to the same.
pub fn common(needs: &[Needs]) -> Sites {
    let Some(first) = needs.first() else { return Vec::new() };
    if needs.iter().all(|need| need.scopes == first.scopes) { first.scopes.clone() } else { Vec::new() }
}

/// Tells those who look why tasks of the job wait.
pub async fn tell(worker: &Worker, run: &RunContext, wait: DomainWait) {
    let now = worker.clock.now();
    // At least until the messages that went back can be there again: until then they do wait.
    let until = wait.until.max(now.after(limits::BOUNCE_MIN));
    let hold = Hold::Domain(DomainWait { until, ..wait });
    if let Err(error) = worker.backend.coordinator.hold(&run.scope(), hold, now).await {
        tracing::debug!(job = %run.key.job, %error, "that tasks wait for a site could not be written down");
    }
}
