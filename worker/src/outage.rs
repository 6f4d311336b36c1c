//! What a worker does while something it depends on fails (SPEC 8): exponential backoff with jitter, and one warning an
//! outage instead of one a try.

use conveyor_domain::{Entropy, Exponential, RunId, limits};
use std::collections::HashMap;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// Exponential backoff with jitter. Doubles per round, not per call: of many calls that fail together, one counts.
#[derive(Debug, Default)]
pub struct Backoff {
    failures: u32,
    /// What failed last.
    what: &'static str,
    until: Option<Instant>,
    /// Somebody finds out whether it is over; others wait for that until then.
    probed_until: Option<Instant>,
    /// Runs that failed, where runs share it.
    runs: Vec<RunId>,
}

pub const PAUSE: Exponential = Exponential::new(limits::STORE_BACKOFF_MIN, limits::STORE_BACKOFF_MAX);

impl Backoff {
    /// A call failed that began at this moment. One that began before the last pause was over tells nothing new.
    pub fn failed(&mut self, what: &'static str, began: Instant, entropy: &Entropy) {
        if self.until.is_none_or(|until| began >= until) {
            (self.failures, self.what) = (self.failures.saturating_add(1), what);
            self.until = Some(Instant::now() + PAUSE.jittered(self.failures, entropy));
            self.probed_until = None;
        }
    }

    /// The same, where runs share it. What one run fails at again and again says nothing about the others: until so many
    /// different ones have failed, each counts once.
    pub fn failed_in(&mut self, run: RunId, what: &'static str, began: Instant, entropy: &Entropy) {
        if self.failures >= limits::STORE_FAILURES_MAX {
            return self.failed(what, began, entropy);
        }
        if !self.runs.contains(&run) {
            self.runs.push(run);
            self.failed(what, began, entropy);
        }
    }

    pub fn succeeded(&mut self) {
        *self = Backoff::default();
    }

    /// This succeeded, and there was nothing to try the rest with.
    pub fn passed(&mut self, what: &'static str) {
        if self.what == what {
            self.succeeded();
        }
        self.probed_until = None;
    }

    /// How many of so many may begin now: after this many failures in a row one, when the pause is over.
    pub fn most(&self, all: u32, failures: u32) -> u32 {
        match self.failures >= failures {
            false => all,
            true if self.is_resting() => 0,
            true => all.min(1),
        }
    }

    /// After this many failures in a row, what was just begun finds out whether it is over. Everything else waits for
    /// that, though not for ever.
    pub fn probe(&mut self, failures: u32) {
        if self.failures >= failures {
            self.probed_until = Some(Instant::now() + limits::STORE_BACKOFF_MAX);
        }
    }

    pub fn is_resting(&self) -> bool {
        self.until.max(self.probed_until).is_some_and(|until| until > Instant::now())
    }
}

/// A backoff that many tasks share.
#[derive(Debug, Default)]
pub struct SharedBackoff(Mutex<Backoff>);

impl SharedBackoff {
    pub fn lock(&self) -> MutexGuard<'_, Backoff> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What fails right now, so that the log says it once and not at every try.
#[derive(Debug, Default)]
pub struct Outages {
    known: Mutex<HashMap<&'static str, Outage>>,
    /// Whether there is one: what succeeds is usually not one of them.
    any: AtomicBool,
}

#[derive(Debug)]
struct Outage {
    since: Instant,
    /// Since the last warning.
    failures: u64,
    warned: Instant,
}

impl Outages {
    fn lock(&self) -> MutexGuard<'_, HashMap<&'static str, Outage>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `what` is the sentence that the log says.
    pub fn failed(&self, what: &'static str, error: &dyn Display) {
        let now = Instant::now();
        let mut known = self.lock();
        self.any.store(true, Ordering::Relaxed);
        let Some(outage) = known.get_mut(what) else {
            known.insert(what, Outage { since: now, failures: 0, warned: now });
            drop(known);
            return tracing::warn!(%error, "{what}; trying again");
        };
        outage.failures += 1;
        if outage.warned.elapsed() >= limits::OUTAGE_WARN_EVERY {
            let (failures, seconds) = (outage.failures, outage.since.elapsed().as_secs());
            (outage.failures, outage.warned) = (0, now);
            drop(known);
            tracing::warn!(%error, failures, seconds, "{what}; still trying");
        }
    }

    pub fn succeeded(&self, what: &'static str) {
        if !self.any.load(Ordering::Relaxed) {
            return;
        }
        let mut known = self.lock();
        let over = known.remove(what);
        self.any.store(!known.is_empty(), Ordering::Relaxed);
        drop(known);
        if let Some(outage) = over {
            let seconds = outage.since.elapsed().as_secs();
            tracing::info!(failures = outage.failures + 1, seconds, "over: {what}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn calls_that_fail_together_double_the_pause_once() {
        let (mut backoff, entropy) = (Backoff::default(), Entropy::from_number(1));
        let began = Instant::now();
        (0..100).for_each(|_| backoff.failed("claim", began, &entropy));
        assert_eq!((backoff.failures, backoff.most(9, 1), backoff.most(9, 2)), (1, 0, 9));
        tokio::time::advance(limits::STORE_BACKOFF_MIN).await;
        assert_eq!(backoff.most(9, 1), 1);
        backoff.failed("claim", began, &entropy);
        assert_eq!(backoff.failures, 1, "it began before the pause");
        backoff.failed("claim", Instant::now(), &entropy);
        assert_eq!(backoff.failures, 2);
        tokio::time::advance(2 * limits::STORE_BACKOFF_MIN).await;
        backoff.probe(1);
        assert_eq!(backoff.most(9, 1), 0, "one probes, the others wait");
        backoff.passed("receive");
        assert_eq!(backoff.most(9, 1), 1, "it found nothing to try: the next one does");
        backoff.failed("claim", Instant::now(), &entropy);
        assert_eq!(backoff.failures, 3);
        backoff.passed("claim");
        assert_eq!(backoff.most(9, 1), 9);
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_fails_again_and_again_does_not_stop_the_others() {
        let (mut shared, entropy) = (Backoff::default(), Entropy::from_number(1));
        let fail = async |shared: &mut Backoff, run: u8| {
            tokio::time::advance(limits::STORE_BACKOFF_MAX).await;
            shared.failed_in(RunId::from_bytes([run; 16]), "claim", Instant::now(), &entropy);
            shared.most(9, limits::STORE_FAILURES_MAX)
        };
        for _ in 0..20 {
            assert_eq!(fail(&mut shared, 1).await, 9);
        }
        assert_eq!(fail(&mut shared, 2).await, 9);
        assert_eq!(fail(&mut shared, 3).await, 0, "it is not one run");
        tokio::time::advance(limits::STORE_BACKOFF_MAX).await;
        assert_eq!(shared.most(9, limits::STORE_FAILURES_MAX), 1);
        assert_eq!(fail(&mut shared, 1).await, 0, "then whichever it is");
        shared.succeeded();
        assert_eq!(fail(&mut shared, 1).await, 9);
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_counted_and_forgotten_when_it_is_over() {
        let outages = Outages::default();
        outages.succeeded("x");
        (0..5).for_each(|_| outages.failed("x", &"down"));
        assert_eq!(outages.lock()["x"].failures, 4, "one was said");
        tokio::time::advance(limits::OUTAGE_WARN_EVERY).await;
        outages.failed("x", &"down");
        assert_eq!(outages.lock()["x"].failures, 0, "said again");
        outages.succeeded("x");
        assert!(outages.lock().is_empty());
    }
}
