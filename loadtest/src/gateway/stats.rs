//! What the gateway saw: how many calls, how many at once, and which URLs came back.

use super::record::{Log, Record, Summary};
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
    /// Only on demand: at 30,000 calls a second it is not free.
    record: Option<Record>,
}

/// What `GET /_stats` tells.
#[derive(Debug, Serialize)]
pub struct Seen {
    #[serde(flatten)]
    counts: Counts,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<Summary>,
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
    /// Also keeps when every call began and ended.
    pub fn recording() -> Stats {
        Stats(Mutex::new(State { record: Some(Record::start()), ..State::default() }))
    }

    /// Counts a call in, and out when the answer is dropped, which also happens if the other side hangs up.
    pub fn begin(&self, target: &str) -> Call<'_> {
        let mut state = self.lock();
        let ordinal = state.count_url(hash(target));
        let counts = &mut state.counts;
        counts.calls += 1;
        counts.in_flight += 1;
        counts.max_in_flight = counts.max_in_flight.max(counts.in_flight);
        if let Some(record) = &mut state.record {
            record.note_arrival(target);
        }
        state.note();
        Call { stats: self, epoch: state.epoch, ordinal }
    }

    pub fn counts(&self) -> Counts {
        self.lock().counts.clone()
    }

    pub fn seen(&self, from_us: Option<u64>, to_us: Option<u64>) -> Seen {
        let state = self.lock();
        let record = state.record.as_ref().map(|record| record.summary(from_us, to_us));
        Seen { counts: state.counts.clone(), record }
    }

    /// `None` unless it records.
    pub fn log(&self) -> Option<Log> {
        self.lock().record.as_ref().map(Record::log)
    }

    pub fn reset(&self) {
        let mut state = self.lock();
        let record = state.record.take().map(Record::forget);
        *state = State { epoch: state.epoch + 1, record, ..State::default() };
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn note(&mut self) {
        if let Some(record) = &mut self.record {
            record.note(self.counts.in_flight);
        }
    }

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
        let mut state = self.stats.lock();
        if state.epoch == self.epoch {
            state.counts.failures += 1;
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let mut state = self.stats.lock();
        if state.epoch == self.epoch {
            state.counts.in_flight -= 1;
            state.note();
        }
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

    #[test]
    fn every_change_is_recorded_and_forgotten_on_demand() {
        let stats = Stats::recording();
        let (a, b) = (stats.begin("a"), stats.begin("b"));
        drop(a);
        let log = stats.log().unwrap();
        let numbers: Vec<u64> = log.changes.iter().map(|change| change.in_flight).collect();
        assert_eq!((numbers, log.unrecorded), (vec![1, 2, 1], 0));
        assert!(log.changes.iter().all(|change| change.at_us <= log.now_us));
        stats.reset();
        drop(b);
        let later = stats.log().unwrap();
        assert!(later.changes.is_empty() && later.now_us >= log.now_us);
    }

    #[test]
    fn nothing_is_recorded_unless_asked_for() {
        let stats = Stats::default();
        drop(stats.begin("a"));
        assert!(stats.log().is_none());
        let seen = serde_json::to_value(stats.seen(None, None)).unwrap();
        assert_eq!(seen, serde_json::to_value(stats.counts()).unwrap());
    }
}
