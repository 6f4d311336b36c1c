//! The real clock and the real randomness: the only place that reads them.

use conveyor_domain::{Clock, Entropy, Timestamp};
use rand::TryRng;
use rand::rngs::SysRng;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// The system's time, except that it never goes back: every message and every retry that was due would lie in the future
/// again, and work would stand still until the clock had caught up. After a step back it runs on from where it was; a step
/// forward, or a sleep of the machine, is followed.
#[derive(Debug)]
pub struct SystemClock {
    /// What is added to the monotonic clock, in milliseconds. It only grows.
    offset_ms: AtomicI64,
    started: Instant,
}

/// Smaller differences are the two clocks drifting apart, not a step.
const STEP_MS: i64 = 1_000;

impl SystemClock {
    pub fn new() -> SystemClock {
        SystemClock { offset_ms: AtomicI64::new(wall_ms()), started: Instant::now() }
    }

    fn at(&self, wall_ms: i64, elapsed_ms: i64) -> Timestamp {
        let now = self.offset_ms.load(Ordering::Relaxed) + elapsed_ms;
        if wall_ms > now + STEP_MS {
            self.offset_ms.fetch_max(wall_ms - elapsed_ms, Ordering::Relaxed);
            return Timestamp(wall_ms);
        }
        Timestamp(now)
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let elapsed_ms = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.at(wall_ms(), elapsed_ms)
    }
}

#[expect(clippy::disallowed_methods, reason = "this is where the time comes from")]
fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

pub fn entropy() -> anyhow::Result<Entropy> {
    Ok(Entropy::from_seed(random_32()?))
}

pub fn random_32() -> anyhow::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    SysRng.try_fill_bytes(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_follows_a_step_forward_and_never_goes_back() {
        let clock = SystemClock { offset_ms: AtomicI64::new(1_000_000), started: Instant::now() };
        assert_eq!(clock.at(1_000_010, 10), Timestamp(1_000_010));
        assert_eq!(clock.at(500_000, 20), Timestamp(1_000_020), "a step back");
        assert_eq!(clock.at(9_000_000, 30), Timestamp(9_000_000), "a step forward, or a sleep");
        assert_eq!(clock.at(9_000_005, 40), Timestamp(9_000_010));
    }
}
