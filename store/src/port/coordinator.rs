use super::Result;
use async_trait::async_trait;
use conveyor_domain::grant::Holding;
use conveyor_domain::{JobId, Timestamp, WorkerId};
use std::time::Duration;

/// Permits shared by all workers (SPEC 6.7).
#[async_trait]
pub trait Coordinator: Send + Sync {
    /// Sets what `worker` holds of the job's `cap` permits to `want`, or as much of it as others leave.
    async fn grant(
        &self,
        job: JobId,
        worker: WorkerId,
        want: u32,
        cap: u32,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Holding>;

    async fn release(&self, job: JobId, worker: WorkerId) -> Result<()>;

    async fn holders(&self, job: JobId, now: Timestamp) -> Result<Vec<(WorkerId, Holding)>>;
}
