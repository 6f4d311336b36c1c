use super::{Result, RunKey};
use async_trait::async_trait;
use conveyor_domain::JobId;

/// Removing what is no longer wanted, in bounded steps that can be repeated.
#[async_trait]
pub trait Retention: Send + Sync {
    /// Jobs that were deleted and still have something stored.
    async fn deleted_jobs(&self, limit: u32) -> Result<Vec<JobId>>;

    /// Removes up to `limit` task rows of a deleted job. Returns how many; 0 means none are left.
    async fn remove_rows(&self, job: JobId, limit: u32) -> Result<u32>;

    /// Removes a deleted job and its runs, once their queues are gone; until then, does nothing. The last step: a job that
    /// can be found can be read. True if it is gone.
    async fn forget_job(&self, job: JobId) -> Result<bool>;

    /// Runs that have ended and whose queue may still be there.
    async fn ended_runs_with_queue(&self, limit: u32) -> Result<Vec<RunKey>>;

    async fn queue_removed(&self, key: RunKey) -> Result<()>;
}
