//! SPEC 3.7: the permits of a job, as they are stored and as the workers believe to hold them, never pass its cap; but what
//! is in use stays its worker's own when the cap falls, or when the worker stood still and others were given its permits.

use crate::audit::read;
use crate::model::{JobModel, Presence};
use crate::violation::{Check, Rule, require};
use crate::world::World;
use conveyor_domain::dispatch::grant::{Ask, Holding, Scope};
use conveyor_domain::{BudgetView, JobId, WorkerId};

/// What a living worker was told that it holds, and what it uses of it.
#[derive(Clone, Copy, Debug)]
pub struct Belief {
    pub worker: WorkerId,
    pub job: JobId,
    pub holding: Holding,
    pub in_use: u32,
}

pub async fn stored(world: &World, job: JobId) -> Check<BudgetView> {
    read("a budget", world.truth.coordinator.budget(&Scope::Job(job), world.now()).await)
}

fn permits_of(view: &BudgetView, worker: WorkerId) -> u32 {
    let holding = view.holders.iter().find(|(holder, _)| *holder == worker);
    holding.map_or(0, |(_, holding)| holding.permits)
}

/// One request, by what is stored before and after it. Nobody else acts in between.
pub fn asked(job: &mut JobModel, ask: &Ask, before: &BudgetView, after: &BudgetView) -> Check {
    if before == after {
        // It did not arrive, or changed nothing.
        return Ok(());
    }
    let told = || format!("by {ask:?}, from {before:?} to {after:?}");
    let revision = before.limits.revision.max(ask.limits.revision);
    require(after.limits.revision == revision, Rule::Limits, || {
        format!("{job} goes by other limits than the latest that were heard of: {}", told())
    })?;
    known_limits(job, after)?;
    let (mine, others) = (permits_of(after, ask.worker), after.held() - permits_of(after, ask.worker));
    require(others == before.held() - permits_of(before, ask.worker), Rule::Limits, || {
        format!("{job}: a request changed what others hold: {}", told())
    })?;
    let left = after.limits.max_inflight.map_or(u32::MAX, |cap| cap.saturating_sub(others));
    let fair = ask.in_use <= mine && mine <= ask.want.min(left).max(ask.in_use);
    require(fair, Rule::Limits, || format!("{job}: {left} were left, and {mine} were given: {}", told()))?;
    job.budget.permits_out = after.held();
    Ok(())
}

fn known_limits(job: &JobModel, view: &BudgetView) -> Check {
    let known = job.budget.limits.get(&view.limits.revision);
    require(known == Some(&view.limits), Rule::Limits, || {
        format!("{job}: its budget has limits that nobody asked for: {:?}", view.limits)
    })
}

pub async fn check(world: &World, beliefs: &[Belief]) -> Check {
    let now = world.now();
    // A job on its way out has no work to limit, and its budget goes with it.
    for job in world.model.jobs.iter().filter(|job| job.presence == Presence::There && !job.asked.deleted) {
        let view = stored(world, job.key.job).await?;
        let (held, out) = (view.held(), job.budget.permits_out);
        require(held <= out, Rule::Limits, || {
            format!("{job}: {out} permits were given out, and {held} are stored: {:?}", view.holders)
        })?;
        let behind = view.limits.revision < job.budget.revision;
        require(!behind, Rule::Limits, || {
            format!("{job}: its budget heard of limits {} and has {:?}", job.budget.revision, view.limits)
        })?;
        if held > 0 {
            known_limits(job, &view)?;
        }
        let live = |belief: &&Belief| belief.job == job.key.job && belief.holding.expires > now;
        for belief in beliefs.iter().filter(live) {
            let stored = permits_of(&view, belief.worker);
            // More may be stored, if an answer was lost; less would let others have them too.
            require(stored >= belief.holding.permits, Rule::Limits, || {
                format!("a worker was told {:?} of {job}, and {stored} are stored", belief.holding)
            })?;
            require(belief.in_use <= belief.holding.permits, Rule::Limits, || {
                format!("a worker uses {} of the {:?} of {job}", belief.in_use, belief.holding)
            })?;
        }
    }
    Ok(())
}
