//! A sweeper that runs: a loop for each pace, so that no repair is late because another is slow.

use crate::proofs::Proofs;
use crate::repair::{Pace, Repair};
use crate::repairs;
use crate::roster::Roster;
use crate::sweep::{Places, Sweep, Swept, take_turns};
use conveyor_domain::clock::watch::Watch;
use conveyor_domain::repair::Subject;
use conveyor_domain::{Clock, Timestamp, WorkerId, limits};
use conveyor_store::port::Removal;
use conveyor_store::{Backend, Result, clock_watch};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
    places: Places,
    /// Whether the clock was in doubt when it was last looked at.
    doubts: AtomicBool,
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
        let doubts = AtomicBool::new(false);
        Sweeper { backend, clock, roster, proofs, repairs, places: Places::default(), doubts }
    }

    fn is_ours(&self, subject: Subject) -> bool {
        self.roster.as_ref().is_none_or(|roster| roster.is_ours(subject))
    }

    /// The repairs of one pace once, for what is ours.
    pub async fn sweep(&self, pace: Pace, stop: &CancellationToken) -> Swept {
        self.renew().await;
        self.take_turns(pace, stop).await
    }

    async fn renew(&self) {
        if let Some(roster) = &self.roster {
            roster.renew(self.backend.coordinator.as_ref(), self.clock.now()).await;
        }
        self.note_time().await;
    }

    async fn take_turns(&self, pace: Pace, stop: &CancellationToken) -> Swept {
        let began = Instant::now();
        let turns = self.repairs.iter().map(AsRef::as_ref).filter(|repair| repair.about().pace == pace);
        let sweep = Sweep::new(&self.backend, self.clock.as_ref(), stop);
        let swept = take_turns(turns, &sweep, &self.places, &|subject| self.is_ours(subject)).await;
        metrics::histogram!("conveyor_sweep_seconds", "pace" => pace.as_str()).record(began.elapsed());
        swept
    }

    /// Takes note of the time, so that a later one can be held against it.
    async fn note_time(&self) {
        let now = self.clock.now();
        match clock_watch::observe(self.backend.store.as_ref(), now).await {
            Ok(watch) => {
                let doubted = watch.is_doubted(now);
                metrics::gauge!("conveyor_removal_halted").set(u8::from(doubted));
                if doubted != self.doubts.swap(doubted, Ordering::Relaxed) {
                    tell(&watch, now);
                }
            }
            Err(error) => tracing::warn!(%error, "the time could not be written down"),
        }
    }

    /// Removes records that are past their time (SPEC 5.7). Whoever reads one decides as if it was gone, so there is nothing to
    /// find or to explain.
    pub async fn remove_expired_records(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            match self.remove_some_records().await {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "records that are past their time stay for now");
                    return;
                }
            }
        }
    }

    async fn remove_some_records(&self) -> Result<u32> {
        let store = &self.backend.store;
        let now = clock_watch::removal_time(store.as_ref(), self.clock.now()).await?;
        store.remove_rows(Removal::Records { by: now }, limits::SWEEP_STEP_ROWS).await
    }

    /// Once for all loops, and however long their turns take.
    async fn stay(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            rest(limits::SWEEP_EVERY, stop).await;
            if !stop.is_cancelled() {
                self.renew().await;
            }
        }
    }

    async fn often(&self, pace: Pace, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            self.take_turns(pace, stop).await;
            rest(limits::SWEEP_EVERY, stop).await;
        }
    }

    async fn slowly(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let swept = self.take_turns(Pace::Slowly, stop).await;
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

fn tell(watch: &Watch, now: Timestamp) {
    let Some(believed_from) = watch.believed_from(now) else {
        tracing::info!(%now, "the time is believed again; what is past its time is removed");
        return;
    };
    tracing::warn!(
        %now, seen = %watch.seen, %believed_from,
        "the time is more than a day from what was last seen; nothing is removed because of its age until it has held for \
         an hour, or `conveyor clock confirm` says that it is right"
    );
}

/// Sweeps until `stop`.
pub async fn run(sweeper: Sweeper, stop: CancellationToken) {
    // Before the first turn: a sweeper that knows of no other fixes everything.
    sweeper.renew().await;
    tokio::join!(
        sweeper.stay(&stop),
        sweeper.often(Pace::Promptly, &stop),
        sweeper.often(Pace::Messages, &stop),
        sweeper.often(Pace::Refs, &stop),
        sweeper.often(Pace::Often, &stop),
        sweeper.slowly(&stop)
    );
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
