//! Queues of runs that have ended: what is still in them is not wanted.

use conveyor_domain::limits;
use conveyor_domain::message::QueueName;
use conveyor_store::{Backend, Result};

const RUNS_A_SWEEP: u32 = 100;

pub async fn repair(backend: &Backend) -> Result<u64> {
    let mut removed = 0;
    for run in backend.store.ended_runs_with_queue(RUNS_A_SWEEP).await? {
        while !backend.queue.remove(QueueName::Run(run), limits::SWEEP_STEP_ROWS).await? {}
        backend.store.queue_removed(run).await?;
        removed += 1;
    }
    Ok(removed)
}
