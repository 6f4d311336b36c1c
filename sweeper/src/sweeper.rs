//! A sweeper that runs: two loops, so that what is costly keeps nobody waiting who waits.

use crate::proofs::Proofs;
use crate::repair::{Pace, Repair};
use crate::repairs;
use crate::roster::Roster;
use crate::sweep::{Sweep, Swept, take_turns};
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
    roster: Roster,
    proofs: Arc<Proofs>,
    repairs: Vec<Box<dyn Repair>>,
}

impl fmt::Debug for Sweeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sweeper").field("id", &self.roster.me).finish_non_exhaustive()
    }
}

impl Sweeper {
    pub fn new(backend: Backend, clock: Arc<dyn Clock>, id: WorkerId) -> Sweeper {
        let proofs = Arc::new(Proofs::default());
        let repairs = repairs::with(&proofs);
        Sweeper { backend, clock, roster: Roster::new(id), proofs, repairs }
    }

    /// The repairs of one pace once, for what is ours.
    pub async fn sweep(&self, pace: Pace, stop: &CancellationToken) -> Swept {
        let began = Instant::now();
        self.roster.renew(self.backend.coordinator.as_ref(), self.clock.now()).await;
        let turns = self.repairs.iter().map(AsRef::as_ref).filter(|repair| repair.pace() == pace);
        let sweep = Sweep::new(&self.backend, self.clock.as_ref(), stop);
        let swept = take_turns(turns, &sweep, &|subject| self.roster.is_ours(subject)).await;
        metrics::histogram!("conveyor_sweep_seconds", "pace" => pace.as_str()).record(began.elapsed());
        swept
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
    sweeper.roster.leave(sweeper.backend.coordinator.as_ref(), sweeper.clock.now()).await;
}

async fn rest(time: Duration, stop: &CancellationToken) {
    tokio::select! {
        () = tokio::time::sleep(time) => {}
        () = stop.cancelled() => {}
    }
}
