//! How long a task takes: as long as tasks of this caller lately took, from their claim to their end. In that time a task
//! holds its permit, so by Little's law it says how many are done in a second, whatever made it so long: the gateway, the
//! sites, or our own writes. It is read from rows that are there anyway, and so whichever process did the work.

use crate::problem::Result;
use crate::state::ApiState;
use conveyor_domain::ingest::estimate::Basis;
use conveyor_domain::job::retention::rows_are_over;
use conveyor_domain::{Attempt, CallerId, RunStatus, TaskId, limits};
use conveyor_store::port::{JobsQuery, RunKey, RunView, StatusFilter, TasksQuery};
use futures::future::join_all;
use std::time::Duration;

/// Times are kept in milliseconds: what took less is not known to have taken nothing.
const LEAST: f64 = 0.001;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub seconds_per_task: f64,
    pub basis: Basis,
    /// Tasks that it was measured on.
    pub tasks: u32,
}

impl Pace {
    /// Measured on the newest run that has done anything; otherwise what has to be assumed. No dry run fails because of its
    /// estimate.
    pub async fn lately(state: &ApiState, caller: CallerId) -> Pace {
        match newest_measured(state, caller).await {
            Ok(Some(measured)) => measured,
            Ok(None) => Pace::assumed(state.config.built_in_gateway),
            Err(error) => {
                tracing::warn!(?error, "the pace of tasks could not be measured; a dry run assumes one");
                Pace::assumed(state.config.built_in_gateway)
            }
        }
    }

    pub fn assumed(built_in_gateway: bool) -> Pace {
        let (basis, seconds_per_task) = match built_in_gateway {
            true => (Basis::BuiltInGateway, limits::BUILT_IN_SECONDS_PER_TASK),
            false => (Basis::NothingMeasured, limits::ASSUMED_SECONDS_PER_TASK),
        };
        Pace { seconds_per_task, basis, tasks: 0 }
    }
}

async fn newest_measured(state: &ApiState, caller: CallerId) -> Result<Option<Pace>> {
    let (limit, look) = (limits::ESTIMATE_JOBS_LOOK, limits::ESTIMATE_JOBS_LOOK);
    let newest = JobsQuery { caller, status: None, scheduled: None, before: None, limit, look };
    for view in state.list(caller, state.store().jobs(newest)).await?.rows {
        let Some(latest) = &view.latest else { continue };
        match measure(state, caller, latest).await {
            Ok(None) => {}
            Ok(measured) => return Ok(measured),
            // It was removed meanwhile, or cannot be read: another one tells as well.
            Err(error) => tracing::debug!(?error, "a run that says nothing about the pace of tasks"),
        }
    }
    Ok(None)
}

/// The last attempt at each of a few tasks, from the middle of what is done: the first find everything cold.
async fn measure(state: &ApiState, caller: CallerId, of: &RunView) -> Result<Option<Pace>> {
    let (run, done) = (&of.run, of.stats.shown().counts.completed());
    // What it inherited stays counted when the rows are gone.
    let has_rows = run.status != RunStatus::Deleted && !rows_are_over(run, state.now());
    if done == 0 || !has_rows {
        return Ok(None);
    }
    let key = RunKey { job: run.job, run: run.id };
    let skipped = (done / 2).saturating_sub(limits::ESTIMATE_TASKS);
    let after = skipped.checked_sub(1).map(|index| TaskId::of(run.id_seed, index));
    let (filter, limit) = (StatusFilter::All, limits::ESTIMATE_TASKS);
    let page = TasksQuery { key, filter, after, limit, max_bytes: limits::RESULTS_PAGE_BYTES };
    let tasks = state.list(caller, state.store().tasks(page)).await?;
    let ended = tasks.iter().filter(|task| task.status.is_terminal() && task.inherited.is_none());
    // One that cannot be read says nothing.
    let attempts = join_all(ended.map(|task| state.store().attempts(key, task.id))).await;
    let last = attempts.into_iter().filter_map(|attempts| attempts.ok().flatten()?.pop());
    let took: Vec<Duration> = last.map(|Attempt { started, ended, .. }| started.until(ended)).collect();
    let (count, sum) = (took.len() as u32, took.iter().sum::<Duration>());
    Ok((count > 0).then(|| Pace {
        seconds_per_task: (sum.as_secs_f64() / f64::from(count)).max(LEAST),
        basis: Basis::Measured,
        tasks: count,
    }))
}
