//! Rows against counters (SPEC 6.14), and which runs this process has proved. Best effort: whoever forgets proves again.

use conveyor_domain::repair::proof::drift;
use conveyor_domain::{Job, Run, RunId, Sums, Timestamp, limits, retention};
use conveyor_store::port::{RunKey, RunView, Tally};
use conveyor_store::{Backend, Result};
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// What a proof came to.
#[derive(Debug)]
pub(crate) enum Proof {
    Agrees,
    Differs {
        tally: Box<Tally>,
        missing: Sums,
    },
    /// Rows are gone that should be there: then it is not the counters that are wrong.
    RowsLost(Box<Tally>),
    /// Rows may be gone, so that they prove nothing.
    Impossible,
}

#[derive(Clone, Copy, Debug)]
struct Proved {
    at: Timestamp,
    /// Nothing of it can change any more, except by damage.
    for_good: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Proofs {
    proved: Mutex<HashMap<RunId, Proved>>,
    suspects: Mutex<HashSet<RunId>>,
    suspected: Notify,
    put_off: Mutex<HashMap<RunId, Timestamp>>,
}

pub(crate) fn is_provable(backend: &Backend, job: &Job, run: &Run, now: Timestamp) -> bool {
    let one_by_one = backend.capabilities.removes_by_itself_within > Duration::ZERO;
    retention::can_be_proved(job, run, one_by_one, now)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Proofs {
    /// Counts the rows of a run against its counters.
    pub async fn prove(&self, backend: &Backend, key: RunKey, now: Timestamp) -> Result<Proof> {
        let (job, of) = (backend.store.job(None, key.job).await?, backend.store.run(key.job, key.run).await?);
        let (Some(view), Some(RunView { run, .. })) = (job, of) else {
            return Ok(Proof::Impossible);
        };
        let provable = is_provable(backend, &view.job, &run, now);
        let tally = if provable { backend.store.tally(key, false).await? } else { None };
        let Some(tally) = tally else {
            self.note(key.run, now, true);
            self.put_off(key.run, now);
            return Ok(Proof::Impossible);
        };
        let missing = drift(&tally.rows, &tally.counters);
        let lost = tally.rows.all() < tally.run.total;
        if lost || !missing.is_zero() {
            // It may have been deleted while its rows were counted.
            let (job, of) =
                (backend.store.job(None, key.job).await?, backend.store.run(key.job, key.run).await?);
            let still = job.zip(of).is_some_and(|(job, of)| is_provable(backend, &job.job, &of.run, now));
            let tally = Box::new(tally);
            return Ok(match (still, lost) {
                (false, _) => Proof::Impossible,
                (true, true) => {
                    self.note(key.run, now, tally.run.status.is_terminal());
                    self.put_off(key.run, now);
                    Proof::RowsLost(tally)
                }
                (true, false) => Proof::Differs { tally, missing },
            });
        }
        self.note(key.run, now, tally.run.status.is_terminal());
        Ok(Proof::Agrees)
    }

    /// Proves a run and corrects its counters. Whether they were corrected here.
    ///
    /// What is missing does not change while work goes on, so it has to be the same twice: a store that shows one part of a
    /// transaction a moment before the other must not have a hand in it.
    pub async fn correct(&self, backend: &Backend, key: RunKey, now: Timestamp) -> Result<bool> {
        let Proof::Differs { tally: first, missing: seen } = self.prove(backend, key, now).await? else {
            return Ok(false);
        };
        let Proof::Differs { tally, missing } = self.prove(backend, key, now).await? else {
            return Ok(false);
        };
        if (seen, first.revision) != (missing, tally.revision) {
            return Ok(false);
        }
        let corrected = backend.store.correct(key, missing, tally.revision, now).await?;
        // If not, somebody else did, on the same condition.
        self.note(key.run, now, tally.run.status.is_terminal());
        Ok(corrected)
    }

    /// It could not be told this time: not again at once.
    pub fn put_off(&self, run: RunId, now: Timestamp) {
        lock(&self.put_off).insert(run, now);
    }

    pub fn is_put_off(&self, run: RunId, now: Timestamp) -> bool {
        lock(&self.put_off).get(&run).is_some_and(|at| at.after(limits::PROVE_PUT_OFF) > now)
    }

    fn note(&self, run: RunId, at: Timestamp, for_good: bool) {
        lock(&self.suspects).remove(&run);
        lock(&self.proved).insert(run, Proved { at, for_good });
    }

    pub fn last(&self, run: RunId) -> Option<Timestamp> {
        lock(&self.proved).get(&run).map(|proved| proved.at)
    }

    /// Whether it was proved since it ended.
    pub fn is_done(&self, run: RunId) -> bool {
        lock(&self.proved).get(&run).is_some_and(|proved| proved.for_good)
    }

    /// The run is over, and nobody asks again.
    pub fn forget(&self, run: RunId) {
        lock(&self.suspects).remove(&run);
        lock(&self.proved).remove(&run);
    }

    /// What is older is due anyway.
    pub fn forget_old(&self, now: Timestamp) {
        lock(&self.put_off).retain(|_, at| at.after(limits::PROVE_PUT_OFF) > now);
        lock(&self.proved).retain(|_, proved| proved.at.after(limits::PROVE_EVERY * 2) > now);
    }

    /// Nothing is left to do for it, and yet its counters say that something is, or the other way round.
    pub fn suspect(&self, run: RunId, now: Timestamp) {
        if !self.is_put_off(run, now) && lock(&self.suspects).insert(run) {
            self.suspected.notify_one();
        }
    }

    pub fn is_suspect(&self, run: RunId) -> bool {
        lock(&self.suspects).contains(&run)
    }

    /// Resolves once there is somebody to suspect.
    pub async fn suspected(&self) {
        self.suspected.notified().await;
    }
}
