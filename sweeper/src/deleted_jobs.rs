//! Deleted jobs: rows first, then objects, the job row last, so that a crash anywhere resumes.

use conveyor_domain::limits;
use conveyor_store::port::BlobKey;
use conveyor_store::{Backend, Result};

const JOBS_A_SWEEP: u32 = 20;

pub async fn repair(backend: &Backend) -> Result<u64> {
    let mut removed = 0;
    for job in backend.store.deleted_jobs(JOBS_A_SWEEP).await? {
        loop {
            let rows = backend.store.remove_rows(job, limits::SWEEP_STEP_ROWS).await?;
            if rows == 0 {
                break;
            }
            removed += u64::from(rows);
        }
        backend.blobs.delete_under(&BlobKey::job_prefix(job)).await?;
        backend.store.forget_job(job).await?;
    }
    Ok(removed)
}
