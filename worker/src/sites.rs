//! Budgets of the domains that tasks go to (SPEC 6.7). Where a task goes is known only once it is claimed: if its domain has
//! no room, its claim is released and its message parked until there is some.

use crate::Worker;
use crate::budgets::{Budgets, Use};
use crate::context::RunContext;
use crate::parked::Parking;
use crate::prediction::Sites;
use conveyor_domain::dispatch::grant::{Change, Limits, Scope};
use conveyor_domain::{DomainWait, Rate, Timestamp, domains, limits};
use conveyor_store::port::ClaimedTask;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

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
    fn take(&mut self, budgets: &Budgets, ahead: &Ahead<'_>, now: Timestamp) -> Result<(), Full> {
        let missing: Vec<(Scope, Limits)> = self.missing().cloned().collect();
        for (scope, limits) in missing {
            let share = budgets.share(&scope, limits);
            let before = ahead.of(&scope);
            // Those that wait already go first.
            let taken = if ahead.lets_pass(&scope, limits) { share.take_soon(now) } else { None };
            match taken {
                Some(taken) => self.uses.push(taken),
                None => {
                    let until = share.free_at(now).after(share.room_every(ahead.call).saturating_mul(before));
                    return Err(Full { until });
                }
            }
        }
        Ok(())
    }
}

/// A domain that has no room.
#[derive(Debug)]
pub struct Full {
    /// When it may have room for a message that goes to the end of those that wait already.
    pub until: Timestamp,
}

/// What was there before the messages of a batch.
#[derive(Debug)]
pub struct Ahead<'a> {
    pub parking: &'a Parking,
    /// They were just received; otherwise they were parked and have waited for their turn.
    pub fresh: bool,
    /// How long a call takes, about.
    pub call: Duration,
    /// The rate of their job is strict: where a domain's is as well, they wait here until the moments of both meet.
    pub strict: bool,
}

impl Ahead<'_> {
    fn of(&self, scope: &Scope) -> u32 {
        self.parking.ahead_at(scope)
    }

    /// Whether a task may have a start of a site that it has none of yet.
    fn lets_pass(&self, scope: &Scope, limits: Limits) -> bool {
        !self.fresh || (self.of(scope) == 0 && !(self.strict && limits.rate.is_some_and(Rate::is_strict)))
    }
}

/// For every task, whether it may go where it wants to. Asks once a site, for all of them.
pub async fn admit(
    worker: &Worker,
    budgets: &Budgets,
    ahead: &Ahead<'_>,
    needs: &mut [Needs],
) -> Vec<Result<(), Full>> {
    let mut missing: HashMap<&Scope, (Limits, u32)> = HashMap::new();
    for (scope, limits) in needs.iter().flat_map(Needs::missing) {
        if ahead.lets_pass(scope, *limits) {
            missing.entry(scope).or_insert((*limits, 0)).1 += 1;
        }
    }
    for (scope, (limits, count)) in missing {
        let share = budgets.share(scope, limits);
        if share.room_soon(worker.clock.now()) < count {
            share.ask_now(worker, count).await;
        }
    }
    let now = worker.clock.now();
    needs.iter_mut().map(|need| need.take(budgets, ahead, now)).collect()
}

/// The sites that all of them go to, if they all go to the same.
pub fn common(needs: &[Needs]) -> Sites {
    let Some(first) = needs.first() else { return Vec::new() };
    if needs.iter().all(|need| need.scopes == first.scopes) { first.scopes.clone() } else { Vec::new() }
}

/// What to tell those who look, given when and what they were told last: the same domain for a while, as long as tasks
/// wait for it. A wait that ends now says that there is none any more.
pub fn to_tell(
    told: Option<&(Instant, DomainWait)>,
    wait: impl Fn(Option<&str>) -> Option<DomainWait>,
    now: Timestamp,
) -> Option<DomainWait> {
    let Some((at, before)) = told else { return wait(None) };
    if at.elapsed() < limits::DOMAIN_WAIT_TOLD_EVERY && wait(Some(&before.domain)).is_some() {
        return None;
    }
    Some(wait(None).unwrap_or_else(|| DomainWait { until: now, ..before.clone() }))
}

/// Tells those who look why tasks of the job wait.
pub async fn tell(worker: &Worker, run: &RunContext, wait: DomainWait) {
    let told =
        worker.backend.coordinator.change(&run.scope(), Change::DomainWait(wait), worker.clock.now()).await;
    if let Err(error) = told {
        tracing::debug!(job = %run.key.job, %error, "that tasks wait for a site could not be written down");
    }
}
