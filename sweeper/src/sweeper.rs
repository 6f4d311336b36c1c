//! A sweeper that runs: two loops, so that what is costly keeps nobody waiting who waits.

use crate::proofs::Proofs;
use crate::repair::{Pace, Repair};
use crate::repairs;
use crate::roster::Roster;
use crate::sweep::{Sweep, Swept, take_turns};
use conveyor_domain::repair::Subject;
use conveyor_domain::{Clock, WorkerId, limits};
use conveyor_store::Backend;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// One of any number of sweepers.
pub struct Sweeper {
    backend: Backend,
    clock: Arc<dyn Clock>,
    roster: Option<Roster>,
    proofs: Arc<Proofs>,
    repairs: Vec<Box<dyn Repair>>,
}

impl fmt::Debug for Sweeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sweeper").field("roster", &self.roster).finish_non_exhaustive()
    }
}

impl Sweeper {
    /// One of several, who share the work.
    pub fn new(backend: Backend, clock: Arc<dyn Clock>, id: WorkerId) -> Sweeper {
        Sweeper::with(backend, clock, Some(Roster::new(id)))
    }

    /// The only one that there can be: it need not tell anybody that it is there.
    pub fn alone(backend: Backend, clock: Arc<dyn Clock>) -> Sweeper {
        Sweeper::with(backend, clock, None)
    }

    fn with(backend: Backend, clock: Arc<dyn Clock>, roster: Option<Roster>) -> Sweeper {
        let proofs = Arc::new(Proofs::default());
        let repairs = repairs::with(&proofs);
        Sweeper { backend, clock, roster, proofs, repairs }
    }

    fn is_ours(&self, subject: Subject) -> bool {
        self.roster.as_ref().is_none_or(|roster| roster.is_ours(subject))
    }

    /// The repairs of one pace once, for what is ours.
    pub async fn sweep(&self, pace: Pace, stop: &CancellationToken) -> Swept {
        let began = Instant::now();
        if let Some(roster) = &self.roster {
            roster.renew(self.backend.coordinator.as_ref(), self.clock.now()).await;
        }
        let turns = self.repairs.iter().map(AsRef::as_ref).filter(|repair| repair.pace() == pace);
        let sweep = Sweep::new(&self.backend, self.clock.as_ref(), stop);
        let swept = take_turns(turns, &sweep, &|subject| self.is_ours(subject)).await;
        metrics::histogram!("conveyor_sweep_seconds", "pace" => pace.as_str()).record(began.elapsed());
        swept
    }

    /// Removes records that are past their time (SPEC 5.7). Whoever reads one decides as if it was gone, so there is nothing to
    /// find or to explain.
    pub async fn remove_expired_records(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let (store, now) = (&self.backend.store, self.clock.now());
            match store.remove_expired_records(now, limits::SWEEP_STEP_ROWS).await {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "records that are past their time stay for now");
                    return;
                }
            }
        }
    }

    async fn often(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            self.sweep(Pace::Often, stop).await;
            rest(limits::SWEEP_EVERY, stop).await;
        }
    }

    async fn slowly(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let swept = self.sweep(Pace::Slowly, stop).await;
            self.remove_expired_records(stop).await;
            if swept.unfinished {
                rest(limits::SWEEP_EVERY, stop).await;
                continue;
            }
            tokio::select! {
                () = rest(limits::SWEEP_SLOWLY_EVERY, stop) => {}
                // A run waits for its counters.
                () = self.proofs.suspected() => {}
            }
        }
    }
}

/// Sweeps until `stop`.
pub async fn run(sweeper: Sweeper, stop: CancellationToken) {
    tokio::join!(sweeper.often(&stop), sweeper.slowly(&stop));
    if let Some(roster) = &sweeper.roster {
        roster.leave(sweeper.backend.coordinator.as_ref(), sweeper.clock.now()).await;
    }
}

async fn rest(time: Duration, stop: &CancellationToken) {
    tokio::select! {
        () = tokio::time::sleep(time) => {}
        () = stop.cancelled() => {}
    }
}
