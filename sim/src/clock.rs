//! Time as the simulation has it: it stands still until the driver lets some pass.

use conveyor_domain::{Clock, Timestamp};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// When every simulation begins. Far from zero, so that "long ago" is representable.
pub const BEGIN: Timestamp = Timestamp(1_800_000_000_000);

#[derive(Debug)]
pub struct SimClock(AtomicI64);

impl SimClock {
    pub fn pass(&self, time: Duration) {
        self.0.store(self.now().after(time).0, Ordering::SeqCst);
    }
}

impl Default for SimClock {
    fn default() -> Self {
        SimClock(AtomicI64::new(BEGIN.0))
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}
