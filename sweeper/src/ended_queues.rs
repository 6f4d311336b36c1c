//! Queues of runs that have ended: what is still in them is not wanted.

use crate::{Sweep, or_leave};
use conveyor_domain::limits;
use conveyor_domain::message::QueueName;
use conveyor_store::Result;
use conveyor_store::port::RunKey;

const RUNS_A_BATCH: u32 = 100;

pub async fn repair(sweep: &Sweep<'_>) -> Result<u64> {
    let mut removed = 0;
    while !sweep.stop.is_cancelled() {
        let runs = sweep.backend.store.ended_runs_with_queue(RUNS_A_BATCH).await?;
        let mut of_batch = 0;
        for run in &runs {
            of_batch += or_leave("ended_queues", run.run, remove(sweep, *run).await);
        }
        removed += of_batch;
        // A batch of which nothing could be removed would come again, and again.
        if runs.len() < RUNS_A_BATCH as usize || of_batch == 0 {
            break;
        }
    }
    Ok(removed)
}

async fn remove(sweep: &Sweep<'_>, key: RunKey) -> Result<u64> {
    while !sweep.backend.queue.remove(QueueName::Run(key.run), limits::SWEEP_STEP_ROWS).await? {
        if sweep.stop.is_cancelled() {
            return Ok(0);
        }
    }
    sweep.backend.store.queue_removed(key).await?;
    Ok(1)
}
