//! A run of which every task is terminal and that nobody ended: the worker that settled the last one died before it could
//! (SPEC 6.5).

use super::missing_refs::any_unfinished;
use crate::facts;
use crate::proofs::Proofs;
use crate::repair::{About, Fixed, Found, Look, Pace, Repair, key_of, run_of};
use crate::sweep::Sweep;
use async_trait::async_trait;
use conveyor_domain::repair::{Finding, Kind, Subject};
use conveyor_domain::{Command, RunStatus};
use conveyor_store::port::{ActiveRun, JobView};
use conveyor_store::{Error, Result};
use std::sync::Arc;

pub(super) struct LostCompletion(pub Arc<Proofs>);

#[async_trait]
impl Repair for LostCompletion {
    fn about(&self) -> About {
        About::new("lost_completion", Kind::Damage, Pace::Often)
    }

    async fn find(&self, look: &Look<'_>, from: Option<String>) -> Result<Found> {
        let (runs, next) = look.runs_from(from).await?;
        let lost = runs.iter().filter(|active| is_lost(active) && !self.0.is_suspect(active.run.id));
        let looks = lost.map(|active| (Subject::from(key_of(active)), self.explain(look, active)));
        Found { next, ..Found::default() }.look_at_runs(self, look, looks.collect()).await
    }

    async fn fix(&self, sweep: &Sweep<'_>, finding: &Finding) -> Result<Fixed> {
        let (key, now) = (run_of(finding)?, sweep.clock.now());
        let status =
            |view: JobView| view.latest.filter(|run| run.run.id == key.run).map(|run| run.run.status);
        let before = sweep.backend.store.job(None, key.job).await?.and_then(status);
        if before.is_none() {
            return Ok(Fixed::NOTHING);
        }
        match sweep.backend.store.apply(key.job, Command::Drained, now).await {
            Ok(view) => Ok(Fixed::Changed(u64::from(status(view) != before))),
            // A worker was quicker, tasks were added, or the job deleted.
            Err(Error::Refused(_) | Error::NotFound) => Ok(Fixed::NOTHING),
            Err(error) => Err(error),
        }
    }
}

impl LostCompletion {
    async fn explain(&self, look: &Look<'_>, active: &ActiveRun) -> Result<Option<Finding>> {
        let key = key_of(active);
        // A run completes once, and this cannot be undone: so the rows are asked, and not only the counters.
        if any_unfinished(look.backend, key).await? {
            self.0.suspect(key.run, look.now());
            return Ok(None);
        }
        let last = facts::last_event(look.backend, key, look.now()).await?;
        let remedy =
            if active.run.latched { "ends the run" } else { "puts the run to rest until more tasks come" };
        Ok(Some(self.about().finding(
            Subject::from(key),
            format!("all {} tasks are terminal and the run goes on; {last}", active.stats.total),
            remedy,
        )))
    }
}

fn is_lost(active: &ActiveRun) -> bool {
    let goes_on = active.run.status == RunStatus::Running && active.job.latest_run == active.run.id;
    goes_on && active.run.is_drained(&active.stats.counts)
}
