//! The latest moment that the store was told: its only idea of what time it is.

use conveyor_domain::{Timestamp, limits};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

#[derive(Clone, Debug)]
pub struct Latest(Arc<AtomicI64>);

impl Latest {
    pub fn new(now: Timestamp) -> Latest {
        Latest(Arc::new(AtomicI64::new(now.0)))
    }

    pub fn learn(&self, now: Timestamp) {
        self.0.fetch_max(now.0, Ordering::SeqCst);
    }

    /// Whether the clock was set back by more than a process would slew; true once for each time that it was.
    pub fn is_set_back(&self, now: Timestamp) -> bool {
        let told = self.0.load(Ordering::SeqCst);
        let was_wrong = now.after(limits::CLOCK_SLEW_MAX).0 < told;
        was_wrong && self.0.compare_exchange(told, now.0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// What a change that is written now goes by. It may have been decided long ago, and everybody who looked since then
    /// has not found it.
    pub fn stamp(&self, decided: Timestamp) -> Timestamp {
        decided.max(Timestamp(self.0.load(Ordering::SeqCst)))
    }
}
