//! Asks whether the breaker of a run trips (SPEC 6.25): once tasks failed, and not at every one of them. The store decides,
//! on what all workers have counted.

use crate::Worker;
use crate::context::RunContext;
use conveyor_domain::{Command, breaker, limits};
use conveyor_store::port::RunView;
use std::sync::{Mutex, PoisonError};
use tokio::time::Instant;

const NOT_JUDGED: &str = "the failure ratio of a run could not be checked";

/// What this worker has seen of a run's failures.
#[derive(Debug, Default)]
pub struct Breaker(Mutex<Watch>);

#[derive(Debug, Default)]
struct Watch {
    /// Something failed since it was last asked.
    suspicious: bool,
    asked: Option<Instant>,
}

impl Breaker {
    pub fn suspect(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).suspicious = true;
    }

    pub fn is_due(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_due()
    }

    /// There were too few tasks to tell: whoever sees the next failure asks at once.
    fn ask_soon(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).asked = None;
    }

    /// Whether to ask now; of several who could, one does.
    fn take(&self) -> bool {
        let mut watch = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = watch.is_due();
        if due {
            *watch = Watch { suspicious: false, asked: Some(Instant::now()) };
        }
        due
    }
}

impl Watch {
    fn is_due(&self) -> bool {
        self.suspicious && self.asked.is_none_or(|at| at.elapsed() >= limits::BREAKER_LOOK_EVERY)
    }
}

pub async fn look(worker: &Worker, run: &RunContext) {
    if run.job.spec.max_failure_ratio.is_none() || !run.breaker().take() {
        return;
    }
    let command = Command::Trip { run: run.key.run };
    match worker.backend.store.apply(run.key.job, command, worker.clock.now()).await {
        Ok(view) => {
            worker.outages.succeeded(NOT_JUDGED);
            let Some(RunView { run: latest, stats }) = view.latest else { return };
            if breaker::is_too_early(&latest, &stats.counts) {
                run.breaker().ask_soon();
            }
            if let Some(reason) = latest.doc.pause.filter(|_| latest.id == run.key.run) {
                let code = reason.code.as_str();
                tracing::info!(run = %run.key.run, code, detail = %reason.detail, "the run is paused");
            }
        }
        Err(error) => {
            worker.outages.failed(NOT_JUDGED, &error);
            run.breaker().suspect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_asks_after_failures_and_not_at_every_one() {
        let breaker = Breaker::default();
        assert!(!breaker.take(), "nothing failed");
        breaker.suspect();
        assert!(breaker.take());
        breaker.suspect();
        assert!(!breaker.take(), "it was just asked");
        tokio::time::sleep(limits::BREAKER_LOOK_EVERY).await;
        assert!(breaker.is_due() && breaker.take(), "what failed meanwhile is not forgotten");
        tokio::time::sleep(limits::BREAKER_LOOK_EVERY).await;
        assert!(!breaker.take(), "nothing failed since");
    }
}
