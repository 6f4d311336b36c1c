use super::{Result, RunKey};
use async_trait::async_trait;
use conveyor_domain::{JobId, RunId, Storage, Timestamp};
use std::time::Duration;

/// What is remembered of a job that was deleted and removed: enough to find what was in flight then and came later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tombstone {
    pub job: JobId,
    pub runs: Vec<RunId>,
    pub gone: Timestamp,
    /// How often it was looked at since.
    pub looks: u32,
}

/// Removing what is no longer wanted, in bounded steps that can be repeated.
#[async_trait]
pub trait Retention: Send + Sync {
    /// Jobs that were deleted and still have something stored.
    async fn deleted_jobs(&self, limit: u32) -> Result<Vec<JobId>>;

    /// Removes up to `limit` task rows and events of a job that is deleted, or gone. Returns how many; 0 means none are left.
    async fn remove_rows(&self, job: JobId, limit: u32) -> Result<u32>;

    /// Removes a deleted job and its runs, once their queues are gone; until then, does nothing. The last step: a job that
    /// can be found can be read. True if it is gone. From then on, and for as long as it is remembered, nobody can make a
    /// job of the same id.
    async fn forget_job(&self, job: JobId, now: Timestamp) -> Result<bool>;

    /// Jobs that are gone and are to be looked at again by now.
    async fn tombstones(&self, now: Timestamp, limit: u32) -> Result<Vec<Tombstone>>;

    /// One more look is done. The next one is due then; `None`: it need not be remembered any more.
    async fn looked_at(&self, tombstone: &Tombstone, next: Option<Timestamp>) -> Result<()>;

    /// Runs that have ended and whose queue may still be there.
    async fn ended_runs_with_queue(&self, limit: u32) -> Result<Vec<RunKey>>;

    async fn queue_removed(&self, key: RunKey) -> Result<()>;

    /// Runs that were deleted, whose job was not, and of which something is still stored.
    async fn deleted_runs(&self, limit: u32) -> Result<Vec<RunKey>>;

    /// Runs that ended before that moment, and whose rows are kept.
    async fn expired_runs(&self, ended_before: Timestamp, limit: u32) -> Result<Vec<RunKey>>;

    /// Removes up to `limit` task rows of a run that has ended. Returns how many; 0 means none are left.
    async fn remove_run_rows(&self, key: RunKey, limit: u32) -> Result<u32>;

    /// Everything of it is removed but its row: because it was deleted, and then its counters go as well, or because of its
    /// age. Once that is so of every run of a job, the job lets go of its upload.
    async fn run_removed(&self, key: RunKey, storage: Storage) -> Result<()>;

    /// Submits that were begun before that moment, and of which nothing became visible.
    async fn abandoned_submits(&self, _begun_before: Timestamp, _limit: u32) -> Result<Vec<JobId>> {
        Ok(Vec::new())
    }

    /// Removes what such a submit wrote, up to `limit` rows. Returns how many; 0 means that nothing is left of it. From the
    /// first call on it cannot become visible any more.
    async fn remove_submit(&self, _job: JobId, _limit: u32) -> Result<u32> {
        Ok(0)
    }

    /// How much longer than told this store may take to remove old rows by itself. Until then, there is no need to.
    fn removes_by_itself_within(&self) -> Duration {
        Duration::ZERO
    }
}
