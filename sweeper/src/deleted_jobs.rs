//! Deleted jobs: rows first, then objects, the job itself last, so that a crash anywhere resumes.

use crate::{Sweep, or_leave};
use conveyor_domain::{JobId, limits};
use conveyor_store::Result;
use conveyor_store::port::BlobKey;
use tokio::time::Instant;

const JOBS_A_BATCH: u32 = 100;

pub async fn repair(sweep: &Sweep<'_>) -> Result<u64> {
    let (mut removed, began) = (0, Instant::now());
    while !sweep.stop.is_cancelled() {
        let jobs = sweep.backend.store.deleted_jobs(JOBS_A_BATCH).await?;
        let mut of_batch = 0;
        for job in &jobs {
            of_batch += or_leave("deleted_jobs", job, remove(sweep, *job, began).await);
        }
        removed += of_batch;
        if jobs.len() < JOBS_A_BATCH as usize || of_batch == 0 {
            break;
        }
    }
    Ok(removed)
}

/// Removes what there is of a job. Returns 1 once it is gone.
async fn remove(sweep: &Sweep<'_>, job: JobId, began: Instant) -> Result<u64> {
    let backend = sweep.backend;
    while backend.store.remove_rows(job, limits::SWEEP_STEP_ROWS).await? > 0 {
        // There is no hurry with these; other repairs wait for their turn.
        if sweep.stop.is_cancelled() || began.elapsed() >= limits::SWEEP_DELETES_WITHIN {
            return Ok(0);
        }
    }
    backend.blobs.delete_under(&BlobKey::job_prefix(job)).await?;
    let gone = backend.store.forget_job(job).await?;
    // Once more, now that no settle can find a row: a worker may have written an object since, and died before it took it back.
    backend.blobs.delete_under(&BlobKey::job_prefix(job)).await?;
    Ok(u64::from(gone))
}
