//! SPEC 3.7: the permits of a job, as they are stored and as the workers believe to hold them, never pass its cap.

use crate::audit::read;
use crate::model::Presence;
use crate::violation::{Check, Rule, require};
use crate::world::World;
use conveyor_domain::grant::Holding;
use conveyor_domain::{JobId, WorkerId};

/// What a living worker was told that it holds.
#[derive(Clone, Copy, Debug)]
pub struct Belief {
    pub worker: WorkerId,
    pub job: JobId,
    pub holding: Holding,
}

pub async fn check(world: &World, beliefs: &[Belief]) -> Check {
    let now = world.now();
    // A job on its way out has no work to limit, and its grants go with it.
    for job in world.model.jobs.iter().filter(|job| job.presence == Presence::There && !job.asked.deleted) {
        let holders = read("the grants of a job", world.truth.coordinator.holders(job.key.job, now).await)?;
        let held: u32 = holders.iter().map(|(_, holding)| holding.permits).sum();
        require(held <= job.cap, Rule::Limits, || {
            format!("{job} may have {} in flight, and {held} permits are out: {holders:?}", job.cap)
        })?;
        let live = |belief: &&Belief| belief.job == job.key.job && belief.holding.expires > now;
        let mut believed = 0;
        for belief in beliefs.iter().filter(live) {
            believed += belief.holding.permits;
            let stored = holders.iter().find(|(worker, _)| *worker == belief.worker);
            // More may be stored, if the answer to a renewal was lost; less would let others have them too.
            let backed = stored.map_or(0, |(_, holding)| holding.permits) >= belief.holding.permits;
            require(backed, Rule::Limits, || {
                format!("a worker was told {:?} of {job}, and {stored:?} is stored", belief.holding)
            })?;
        }
        require(believed <= job.cap, Rule::Limits, || {
            format!("{job} may have {} in flight, and workers believe to hold {believed}", job.cap)
        })?;
    }
    Ok(())
}
