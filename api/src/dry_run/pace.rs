//! How long a task takes: as long as tasks of this caller lately took, from their claim to their end. In that time a task
//! holds its permit, so by Little's law it says how many are done in a second, whatever made it so long: the gateway, the
//! sites, or our own writes. It is read from rows that are there anyway, and so whichever process did the work.

use crate::problem::Result;
use crate::state::ApiState;
use conveyor_domain::estimate::Basis;
use conveyor_domain::task::Attempt;
use conveyor_domain::{CallerId, TaskId, limits};
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
    /// Measured on the newest run that has done anything; otherwise what has to be assumed.
    pub async fn lately(state: &ApiState, caller: CallerId) -> Result<Pace> {
        let (limit, look) = (limits::ESTIMATE_JOBS_LOOK, limits::ESTIMATE_JOBS_LOOK);
        let newest = JobsQuery { caller, status: None, scheduled: None, before: None, limit, look };
        for view in state.list(caller, state.store().jobs(newest)).await?.rows {
            if let Some(measured) = measure(state, caller, &view.latest).await? {
                return Ok(measured);
            }
        }
        Ok(Pace::assumed(state.config.built_in_gateway))
    }

    pub fn assumed(built_in_gateway: bool) -> Pace {
        let (basis, seconds_per_task) = match built_in_gateway {
            true => (Basis::BuiltInGateway, limits::BUILT_IN_SECONDS_PER_TASK),
            false => (Basis::NothingMeasured, limits::ASSUMED_SECONDS_PER_TASK),
        };
        Pace { seconds_per_task, basis, tasks: 0 }
    }
}

/// The last attempt at each of a few tasks, from the middle of what is done: the first find everything cold.
async fn measure(state: &ApiState, caller: CallerId, of: &RunView) -> Result<Option<Pace>> {
    let (run, done) = (&of.run, of.stats.shown().counts.completed());
    if done == 0 {
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
