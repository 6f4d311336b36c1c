//! The sweeper: small, named, repeatable repairs, each a bounded step (SPEC 6.5, 6.6).
//!
//! It knows the ports; never a backend, never another role. Any number of sweepers may run at once: every step is safe to
//! repeat and safe beside another's.

mod deleted_jobs;
mod ended_queues;
mod lost_completion;

use conveyor_domain::{Clock, limits};
use conveyor_store::{Backend, Result};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Sweeps until `shutdown`.
pub async fn run(backend: Backend, clock: Arc<dyn Clock>, shutdown: CancellationToken) {
    while !shutdown.is_cancelled() {
        sweep(&backend, clock.as_ref()).await;
        tokio::select! {
            () = tokio::time::sleep(limits::SWEEP_EVERY) => {}
            () = shutdown.cancelled() => {}
        }
    }
}

/// Every repair once. One that fails is reported and does not keep the others from their turn.
pub async fn sweep(backend: &Backend, clock: &dyn Clock) {
    report("lost_completion", lost_completion::repair(backend, clock.now()).await);
    report("ended_queues", ended_queues::repair(backend).await);
    report("deleted_jobs", deleted_jobs::repair(backend).await);
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
