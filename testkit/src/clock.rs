//! The clocks of tests.

use conveyor_domain::{Clock, Timestamp};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Where a test's time begins unless the test says otherwise. Far from zero, so that "long ago" is representable.
pub const START: Timestamp = Timestamp(1_800_000_000_000);

/// Stands still until the test moves it.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    pub fn new() -> ManualClock {
        ManualClock::at(START)
    }

    pub fn at(now: Timestamp) -> ManualClock {
        ManualClock(AtomicI64::new(now.0))
    }

    pub fn set(&self, now: Timestamp) {
        self.0.store(now.0, Ordering::SeqCst);
    }

    pub fn advance(&self, time: Duration) {
        self.advance_ms(i64::try_from(time.as_millis()).expect("a duration that fits a timestamp"));
    }

    /// Moves the clock; back, if the number is negative.
    pub fn advance_ms(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        ManualClock::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// Real time, counted from [`START`]. On a paused tokio runtime it follows the runtime's time.
#[derive(Debug)]
pub struct RunningClock(Instant);

impl RunningClock {
    pub fn new() -> RunningClock {
        RunningClock(Instant::now())
    }
}

impl Default for RunningClock {
    fn default() -> Self {
        RunningClock::new()
    }
}

impl Clock for RunningClock {
    fn now(&self) -> Timestamp {
        START.after(self.0.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_when_it_is_moved() {
        let clock = ManualClock::new();
        assert_eq!(clock.now(), START);
        clock.advance(Duration::from_secs(2));
        assert_eq!(clock.now(), Timestamp(START.0 + 2_000));
        clock.advance_ms(-500);
        assert_eq!(clock.now(), Timestamp(START.0 + 1_500));
        clock.set(Timestamp(7));
        assert_eq!(clock.now(), Timestamp(7));
    }
}
