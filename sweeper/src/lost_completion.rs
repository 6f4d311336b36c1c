//! A run of which every task is terminal and that nobody ended: the worker that settled the last one died before it could.

use crate::{Sweep, or_leave};
use conveyor_domain::lifecycle::Command;
use conveyor_store::port::ActiveRun;
use conveyor_store::{Error, Result};

pub async fn repair(sweep: &Sweep<'_>) -> Result<u64> {
    let mut ended = 0;
    for active in sweep.backend.store.active_runs().await? {
        if sweep.stop.is_cancelled() {
            break;
        }
        if active.run.is_drained(&active.stats.counts) {
            ended += or_leave("lost_completion", active.run.id, end(sweep, &active).await);
        }
    }
    Ok(ended)
}

async fn end(sweep: &Sweep<'_>, active: &ActiveRun) -> Result<u64> {
    let now = sweep.clock.now();
    match sweep.backend.store.apply(active.job.id, Command::Drained, now).await {
        Ok(view) => Ok(u64::from(view.latest.run.updated == now)),
        // A worker was quicker, tasks were added, or the job deleted.
        Err(Error::Refused(_) | Error::NotFound) => Ok(0),
        Err(error) => Err(error),
    }
}
