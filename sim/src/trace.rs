//! What happened, line by line, and a hash of it all: two plays of one seed are compared by it.

use conveyor_domain::Timestamp;
use std::collections::VecDeque;
use std::fmt::{self, Display};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many lines a failure shows of what led to it.
const RECENT_MAX: usize = 25;
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

#[derive(Debug)]
struct State {
    step: u64,
    began: Timestamp,
    now: Timestamp,
    hash: u64,
    recent: VecDeque<String>,
    /// Everything, if it is wanted.
    all: Option<Vec<String>>,
}

/// A handle; all clones write to the same trace.
#[derive(Clone)]
pub struct Trace(Arc<Mutex<State>>);

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trace({:016x})", self.hash())
    }
}

impl Trace {
    pub fn new(began: Timestamp, keep: bool) -> Trace {
        Trace(Arc::new(Mutex::new(State {
            step: 0,
            began,
            now: began,
            hash: FNV_OFFSET,
            recent: VecDeque::with_capacity(RECENT_MAX),
            all: keep.then(Vec::new),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lines from now on belong to this step.
    pub fn begin_step(&self, step: u64, now: Timestamp) {
        let mut state = self.lock();
        (state.step, state.now) = (step, now);
    }

    pub fn note(&self, event: impl Display) {
        let mut state = self.lock();
        let passed_ms = state.began.until(state.now).as_millis();
        let line = format!("{:>5} {:>9}.{:03} {event}", state.step, passed_ms / 1_000, passed_ms % 1_000);
        for byte in line.bytes().chain([b'\n']) {
            state.hash = (state.hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
        if state.recent.len() == RECENT_MAX {
            state.recent.pop_front();
        }
        if let Some(all) = &mut state.all {
            all.push(line.clone());
        }
        state.recent.push_back(line);
    }

    pub fn hash(&self) -> u64 {
        self.lock().hash
    }

    pub fn recent(&self) -> Vec<String> {
        self.lock().recent.iter().cloned().collect()
    }

    /// Every line, if they were kept.
    pub fn lines(&self) -> Vec<String> {
        self.lock().all.clone().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(events: &[&str]) -> Trace {
        let trace = Trace::new(Timestamp(0), true);
        events.iter().for_each(|event| trace.note(event));
        trace
    }

    #[test]
    fn the_hash_tells_traces_apart() {
        assert_eq!(of(&["a", "b"]).hash(), of(&["a", "b"]).hash());
        assert_ne!(of(&["a", "b"]).hash(), of(&["b", "a"]).hash());
        assert_ne!(of(&["ab"]).hash(), of(&["a", "b"]).hash());
    }

    #[test]
    fn recent_lines_are_the_last_ones() {
        let trace = of(&[]);
        (0..100).for_each(|n| trace.note(n));
        assert_eq!(trace.recent().len(), RECENT_MAX);
        assert_eq!(trace.recent().last(), trace.lines().last());
        assert_eq!(trace.lines().len(), 100);
    }
}
