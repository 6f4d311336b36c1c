use super::over::port;
use super::{Result, RunKey};
use conveyor_domain::repair::Subject;
use conveyor_domain::{JobId, RunId, Storage, Timestamp};

/// What is remembered of a job that was deleted and removed: enough to find what was in flight then and came later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tombstone {
    pub job: JobId,
    pub runs: Vec<RunId>,
    pub gone: Timestamp,
    /// How often it was looked at since.
    pub looks: u32,
}

/// What a sweep finds, to do something about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chore {
    /// Jobs that were deleted and still have something stored.
    DeletedJobs,
    /// Submits that were begun before that moment, and of which nothing became visible.
    AbandonedSubmits { begun_before: Timestamp },
    /// Runs that have ended and whose queue may still be there.
    EndedQueues,
    /// Runs that were deleted, whose job was not, and of which something is still stored.
    DeletedRuns,
    /// Runs that ended before that moment, and whose rows are kept.
    ExpiredRuns { ended_before: Timestamp },
    /// Uploads that are marked to be removed, or have expired and are needed by no job.
    ExpiredUploads { by: Timestamp },
}

/// Rows that are removed in steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Task rows and events of a job that is deleted, or gone.
    Job(JobId),
    /// Task rows of a run that has ended.
    Run(RunKey),
    /// All that a submit wrote of which nothing became visible. From the first call on it cannot become visible any more.
    Submit(JobId),
    /// Records that are past their time by then. A store that removes them by itself has none.
    Records { by: Timestamp },
}

/// What is gone of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    QueueGone,
    /// Everything but its row: because it was deleted ([`Storage::Removed`]), and then its counters go as well, or because of
    /// its age ([`Storage::Expired`]). Once that is so of every run of a job, the job lets go of its upload.
    RowsGone(Storage),
}

port! {
    /// Removing what is no longer wanted, in bounded steps that can be repeated.
    pub trait Retention, decorated by OverRetention over store {
        /// The first of what there is to do. May lag behind on a distributed backend.
        async fn due(&self, chore: Chore, limit: u32) -> Result<Vec<Subject>>;

        /// Removes up to `limit` rows. Returns how many; 0 means none are left.
        async fn remove_rows(&self, rows: Removal, limit: u32) -> Result<u32>;

        /// Notes what is gone of a run. One that is not in the state for it, by now or ever, stays as it is.
        async fn mark(&self, key: RunKey, mark: Mark) -> Result<()>;

        /// Removes a deleted job and its runs, once their queues are gone; until then, does nothing. The last step: a job that
        /// can be found can be read. True if it is gone. From then on, and for as long as it is remembered, nobody can make a
        /// job of the same id.
        async fn forget_job(&self, job: JobId, now: Timestamp) -> Result<bool>;

        /// Jobs that are gone and are to be looked at again by now.
        async fn tombstones(&self, now: Timestamp, limit: u32) -> Result<Vec<Tombstone>>;

        /// One more look is done. The next one is due then; `None`: it need not be remembered any more.
        async fn looked_at(&self, tombstone: &Tombstone, next: Option<Timestamp>) -> Result<()>;
    }
}
