//! A run of which every task is terminal and that nobody ended: the worker that settled the last one died before it could.

use conveyor_domain::Timestamp;
use conveyor_domain::lifecycle::Command;
use conveyor_store::{Backend, Error, Result};

pub async fn repair(backend: &Backend, now: Timestamp) -> Result<u64> {
    let mut ended = 0;
    for active in backend.store.active_runs().await? {
        let view = backend.store.run(active.job.id, active.run.id).await?;
        if !view.is_some_and(|v| v.stats.is_drained()) {
            continue;
        }
        match backend.store.apply(active.job.id, Command::Drained, now).await {
            Ok(view) if view.latest.run.updated == now => ended += 1,
            // A worker was quicker, tasks were added, or the job deleted.
            Ok(_) | Err(Error::Refused(_) | Error::NotFound) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(ended)
}
