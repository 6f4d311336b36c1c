//! The runs that have work, as far as this worker knows (SPEC 8): all of them once, then what changed, and all of them again
//! now and then.

use crate::Worker;
use crate::context::RunContext;
use crate::outage::Backoff;
use crate::prediction::Prediction;
use crate::receives::Receives;
use crate::turns::Turns;
use conveyor_domain::{DomainWait, RunId, Timestamp, breaker, limits};
use conveyor_store::port::{ActiveRun, ChangeCursor, ChangedRuns};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tokio::time::Instant;

/// A run, and what this worker remembers of it.
#[derive(Debug)]
pub struct KnownRun {
    pub context: Arc<RunContext>,
    pub paused: bool,
    /// Something was received since its end was last looked for.
    pub worked: bool,
    /// Every task was terminal when it was last discovered.
    pub drained: bool,
    pub receives: Receives,
    /// Its end is not looked for before this.
    pub end_not_before: Option<Instant>,
    pub prediction: Prediction,
    /// When the wait for a domain was last told, and until when that holds.
    pub told: Option<(Instant, DomainWait)>,
}

/// A look that is to be taken: at what changed, or at all runs.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    since: Option<ChangeCursor>,
    at: Timestamp,
}

impl Look {
    pub async fn take(self, worker: &Worker) -> conveyor_store::Result<(Look, ChangedRuns)> {
        Ok((self, worker.backend.store.changed_runs(self.since, self.at).await?))
    }
}

#[derive(Debug, Default)]
pub struct Runs {
    known: HashMap<RunId, KnownRun>,
    pub turns: Turns,
    /// How far the last look that found something out has seen.
    seen: Option<ChangeCursor>,
    looked_at_all: Option<Instant>,
    began: Option<Instant>,
    looking: bool,
    backoff: Backoff,
}

impl Runs {
    /// The look that is due, if one is: soon if something may be new, but not at every message.
    pub fn due(&mut self, hint: bool, now: Timestamp) -> Option<Look> {
        let age = if hint { limits::REDISCOVER_AFTER } else { limits::DISCOVER_EVERY };
        if self.looking || self.backoff.is_resting() || self.began.is_some_and(|at| at.elapsed() < age) {
            return None;
        }
        (self.looking, self.began) = (true, Some(Instant::now()));
        let everything = self.looked_at_all.is_none_or(|at| at.elapsed() >= limits::DISCOVER_ALL_EVERY);
        Some(Look { since: self.seen.filter(|_| !everything), at: now })
    }

    /// A look that failed is taken again, after a while.
    pub fn not_found(&mut self, worker: &Worker) {
        self.looking = false;
        self.backoff.failed("look", self.began.unwrap_or_else(Instant::now), &worker.entropy);
    }

    /// Takes in what a look found.
    pub fn absorb(&mut self, worker: &Worker, look: Look, found: ChangedRuns) {
        (self.looking, self.seen) = (false, Some(found.next));
        self.backoff.succeeded();
        if look.since.is_none() {
            self.looked_at_all = Some(Instant::now());
            let there: HashSet<RunId> = found.active.iter().map(|active| active.run.id).collect();
            let gone: Vec<RunId> = self.known.keys().filter(|id| !there.contains(id)).copied().collect();
            gone.into_iter().for_each(|run| self.evict(run));
        }
        found.gone.into_iter().for_each(|key| self.evict(key.run));
        found.active.into_iter().for_each(|active| self.learn(worker, active));
    }

    fn learn(&mut self, worker: &Worker, active: ActiveRun) {
        let (id, caller) = (active.run.id, active.job.caller);
        let (drained, paused) = (active.run.is_drained(&active.stats.counts), active.run.paused);
        let failing = breaker::judge(&active.job.spec, &active.run, &active.stats.counts).is_some();
        match self.known.get_mut(&id) {
            Some(known) => {
                (known.drained, known.paused) = (drained, paused);
                if known.context.job != active.job {
                    known.context = Arc::new(known.context.with_job(active.job));
                    // Its sites may have other limits now.
                    known.prediction = Prediction::default();
                }
            }
            None => {
                let context = Arc::new(RunContext::new(worker, active));
                let known = KnownRun {
                    context,
                    paused,
                    worked: false,
                    drained,
                    receives: Receives::default(),
                    end_not_before: None,
                    prediction: Prediction::default(),
                    told: None,
                };
                self.known.insert(id, known);
                self.turns.add(caller, id);
            }
        }
        if let Some(known) = self.known.get(&id).filter(|_| failing) {
            known.context.breaker().suspect();
        }
    }

    pub fn evict(&mut self, run: RunId) {
        if self.known.remove(&run).is_some() {
            self.turns.remove(run);
        }
    }

    /// Something was sent, perhaps to a queue that was left alone for being empty.
    pub fn something_was_sent(&mut self) {
        self.known.values_mut().for_each(|run| run.receives.something_was_sent());
    }

    /// Whether messages of a run are worth keeping here.
    pub fn wants(&self, run: RunId) -> bool {
        self.known.get(&run).is_some_and(|known| !known.paused)
    }

    pub fn get_mut(&mut self, run: RunId) -> Option<&mut KnownRun> {
        self.known.get_mut(&run)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (RunId, &mut KnownRun)> {
        self.known.iter_mut().map(|(id, known)| (*id, known))
    }

    pub fn iter(&self) -> impl Iterator<Item = (RunId, &KnownRun)> {
        self.known.iter().map(|(id, known)| (*id, known))
    }
}
