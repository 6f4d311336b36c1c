//! What the gateway saw: how many calls, how many at once, and which URLs came back.

use serde::Serialize;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// URLs are kept as 64-bit hashes, some 20 bytes each: two million of them fit anywhere.
const URLS_MAX: usize = 2_000_000;

#[derive(Debug, Default)]
pub struct Stats(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    counts: Counts,
    calls_of: HashMap<u64, u32>,
    /// Calls that began before a reset end after it, and must not be subtracted from the new count.
    epoch: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub calls: u64,
    pub in_flight: u64,
    pub max_in_flight: u64,
    pub distinct_urls: u64,
    /// URLs that were called more than once.
    pub repeated_urls: u64,
    pub failures: u64,
    /// Calls of URLs that came after the table was full: then the two counts above are too low.
    pub uncounted_urls: u64,
}

impl Stats {
    /// Counts a call in, and out when the answer is dropped, which also happens if the other side hangs up.
    pub fn begin(&self, target: &str) -> Call<'_> {
        let mut state = self.lock();
        let ordinal = state.count_url(hash(target));
        let counts = &mut state.counts;
        counts.calls += 1;
        counts.in_flight += 1;
        counts.max_in_flight = counts.max_in_flight.max(counts.in_flight);
        Call { stats: self, epoch: state.epoch, ordinal }
    }

    pub fn counts(&self) -> Counts {
        self.lock().counts.clone()
    }

    pub fn reset(&self) {
        let mut state = self.lock();
        *state = State { epoch: state.epoch + 1, ..State::default() };
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn count_url(&mut self, url: u64) -> u32 {
        if self.calls_of.len() >= URLS_MAX && !self.calls_of.contains_key(&url) {
            self.counts.uncounted_urls += 1;
            return 1;
        }
        let calls = self.calls_of.entry(url).or_default();
        *calls = calls.saturating_add(1);
        match *calls {
            1 => self.counts.distinct_urls += 1,
            2 => self.counts.repeated_urls += 1,
            _ => {}
        }
        *calls
    }
}

#[derive(Debug)]
pub struct Call<'a> {
    stats: &'a Stats,
    epoch: u64,
    /// Which call of its URL this is, from 1.
    pub ordinal: u32,
}

impl Call<'_> {
    pub fn fail(&self) {
        self.update(|counts| counts.failures += 1);
    }

    fn update(&self, change: impl FnOnce(&mut Counts)) {
        let mut state = self.stats.lock();
        if state.epoch == self.epoch {
            change(&mut state.counts);
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.update(|counts| counts.in_flight -= 1);
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_calls_urls_and_the_most_at_once() {
        let stats = Stats::default();
        let (a, b) = (stats.begin("a"), stats.begin("b"));
        a.fail();
        drop(a);
        let again = stats.begin("a");
        assert_eq!((b.ordinal, again.ordinal), (1, 2));
        drop((b, again));
        let third = stats.begin("a");
        assert_eq!(third.ordinal, 3);
        let expected = Counts {
            calls: 4,
            in_flight: 1,
            max_in_flight: 2,
            distinct_urls: 2,
            repeated_urls: 1,
            failures: 1,
            uncounted_urls: 0,
        };
        assert_eq!(stats.counts(), expected);
    }

    #[test]
    fn a_reset_forgets_calls_that_are_still_running() {
        let stats = Stats::default();
        let running = stats.begin("a");
        stats.reset();
        assert_eq!(stats.counts(), Counts::default());
        running.fail();
        drop(running);
        assert_eq!(stats.counts(), Counts::default());
        assert_eq!(stats.begin("a").ordinal, 1);
    }
}
