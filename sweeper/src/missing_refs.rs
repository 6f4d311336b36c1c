//! Tasks that nobody will ever pick up: their run is not finished, and its queue holds nothing at all (SPEC 3.4).
//!
//! A task that is being worked on keeps its message in the queue, hidden. So an empty queue beside unfinished rows means that
//! messages were lost. Sending one too many is harmless: the claim decides.

use crate::{Sweep, or_leave};
use conveyor_domain::limits;
use conveyor_domain::message::{QueueName, TaskRef};
use conveyor_store::Result;
use conveyor_store::port::{ActiveRun, RunKey, StatusFilter, TasksQuery};

pub async fn repair(sweep: &Sweep<'_>) -> Result<u64> {
    let mut sent = 0;
    for active in sweep.backend.store.active_runs().await? {
        if sweep.stop.is_cancelled() {
            break;
        }
        if active.stats.counts.completed() < active.stats.total {
            sent += or_leave("missing_refs", active.run.id, send(sweep, &active).await);
        }
    }
    Ok(sent)
}

async fn send(sweep: &Sweep<'_>, active: &ActiveRun) -> Result<u64> {
    let (store, queue) = (&sweep.backend.store, QueueName::Run(active.run.id));
    if !sweep.backend.queue.is_empty(queue, sweep.clock.now()).await? {
        return Ok(0);
    }
    let key = RunKey { job: active.job.id, run: active.run.id };
    let (mut after, mut sent) = (None, 0);
    loop {
        let query = TasksQuery {
            key,
            filter: StatusFilter::Unfinished,
            after,
            limit: limits::SWEEP_STEP_ROWS,
            max_bytes: limits::RESULTS_PAGE_BYTES,
        };
        let tasks = store.tasks(query).await?;
        let Some(last) = tasks.last() else { return Ok(sent) };
        after = Some(last.id);
        let task_shard_count = active.job.spec.task_shard_count;
        let refs = tasks.iter().map(|task| TaskRef { task: task.id, task_shard_count }.to_string());
        sweep.backend.queue.send(queue, refs.collect(), sweep.clock.now()).await?;
        sent += tasks.len() as u64;
    }
}
