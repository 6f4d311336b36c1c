//! The latest moment that the store was told: its only idea of what time it is.

use conveyor_domain::Timestamp;
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

    /// What a change that is written now goes by. It may have been decided long ago, and everybody who looked since then
    /// has not found it.
    pub fn stamp(&self, decided: Timestamp) -> Timestamp {
        decided.max(Timestamp(self.0.load(Ordering::SeqCst)))
    }
}
