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

    /// What the store was told, if the clock was set back since by more than a process would slew.
    pub fn set_back_from(&self, now: Timestamp) -> Option<Timestamp> {
        let told = self.0.load(Ordering::SeqCst);
        (now.after(limits::CLOCK_SLEW_MAX).0 < told).then_some(Timestamp(told))
    }

    /// Goes back with the clock; true for one of those who found out at once.
    pub fn set_back(&self, told: Timestamp, now: Timestamp) -> bool {
        self.0.compare_exchange(told.0, now.0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// What a change that is written now goes by. It may have been decided long ago, and everybody who looked since then
    /// has not found it.
    pub fn stamp(&self, decided: Timestamp) -> Timestamp {
        decided.max(Timestamp(self.0.load(Ordering::SeqCst)))
    }
}
