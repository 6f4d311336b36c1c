//! The sweeper: small, named, repeatable repairs, each in bounded steps (SPEC 6.5, 6.6, 6.8, 6.9, 6.13).
//!
//! It knows the ports; never a backend, never another role. Any number of sweepers may run at once: every step is safe to
//! repeat and safe beside another's.

mod deleted_jobs;
mod ended_queues;
mod expired_uploads;
mod lost_completion;
mod missing_refs;
mod stalled_ingest;

use conveyor_domain::{Clock, limits};
use conveyor_store::{Backend, Result};
use std::fmt::Display;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What a repair works with.
#[derive(Debug)]
pub struct Sweep<'a> {
    pub backend: &'a Backend,
    pub clock: &'a dyn Clock,
    /// A sweep ends between two steps when this is cancelled; the next one goes on.
    pub stop: &'a CancellationToken,
}

/// Sweeps until `stop`.
pub async fn run(backend: Backend, clock: Arc<dyn Clock>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        sweep(&Sweep { backend: &backend, clock: clock.as_ref(), stop: &stop }).await;
        tokio::select! {
            () = tokio::time::sleep(limits::SWEEP_EVERY) => {}
            () = stop.cancelled() => {}
        }
    }
}

/// Every repair once. One that fails is reported and does not keep the others from their turn.
pub async fn sweep(sweep: &Sweep<'_>) {
    report("missing_refs", missing_refs::repair(sweep).await);
    report("lost_completion", lost_completion::repair(sweep).await);
    report("stalled_ingest", stalled_ingest::repair(sweep).await);
    report("expired_uploads", expired_uploads::repair(sweep).await);
    report("ended_queues", ended_queues::repair(sweep).await);
    report("deleted_jobs", deleted_jobs::repair(sweep).await);
}

fn report(repair: &'static str, outcome: Result<u64>) {
    match outcome {
        Ok(0) => {}
        Ok(changed) => {
            metrics::counter!("conveyor_swept_total", "repair" => repair).increment(changed);
            tracing::info!(repair, changed, "swept");
        }
        Err(error) => tracing::warn!(repair, %error, "a sweep could not be finished; the next one goes on"),
    }
}

/// One thing that cannot be repaired must not keep the rest from it: it is reported and left for the next sweep.
fn or_leave(repair: &'static str, id: impl Display, outcome: Result<u64>) -> u64 {
    outcome.unwrap_or_else(|error| {
        tracing::warn!(repair, %id, %error, "could not be repaired this time");
        0
    })
}
