//! The real clock and the real randomness: the only place that reads them.

use conveyor_domain::clock::Steady;
use conveyor_domain::{Clock, Entropy, Timestamp, limits};
use conveyor_store::server_time::ServerTime;
use rand::TryRng;
use rand::rngs::SysRng;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The time that a process goes by (SPEC 6.26): the backend's where its answers say what that is, otherwise the wall clock's.
/// Either is followed without going back, unless it was days ahead: every message and every retry that was due would lie in
/// the future again.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
    server: Arc<ServerTime>,
    following: Mutex<Following>,
}

#[derive(Debug)]
struct Following {
    steady: Steady,
    is_server: bool,
}

impl SystemClock {
    pub fn new() -> SystemClock {
        let steady = Steady::new(Duration::ZERO, wall());
        SystemClock {
            started: Instant::now(),
            server: Arc::default(),
            following: Mutex::new(Following { steady, is_server: false }),
        }
    }

    /// What a backend tells its time.
    pub fn server_time(&self) -> Arc<ServerTime> {
        self.server.clone()
    }
}

impl Following {
    fn now(&mut self, monotonic: Duration, server: Option<Timestamp>, wall: Timestamp) -> Timestamp {
        let Some(server) = server else {
            return self.steady.follow(monotonic, wall, limits::CLOCK_STEP_MIN);
        };
        if !self.is_server {
            // Nothing was decided before the first answer of the backend.
            *self = Following { steady: Steady::new(monotonic, server), is_server: true };
        }
        self.steady.follow(monotonic, server, Duration::ZERO)
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let server = self.server.now();
        let mut following = self.following.lock().unwrap_or_else(PoisonError::into_inner);
        following.now(self.started.elapsed(), server, wall())
    }

    fn skew_ms(&self) -> Option<i64> {
        Some(wall().0.saturating_sub(self.now().0))
    }
}

/// Shows the skew, and warns when it becomes large and when it is small again.
pub async fn watch_skew(clock: Arc<SystemClock>, stop: CancellationToken) {
    let mut warned = false;
    while !stop.is_cancelled() {
        let skew_ms = clock.skew_ms().unwrap_or(0);
        metrics::gauge!("conveyor_clock_skew_seconds").set(skew_ms as f64 / 1000.0);
        let large = Duration::from_millis(skew_ms.unsigned_abs()) > limits::CLOCK_SKEW_MAX;
        if large && !warned {
            // A process that is ahead of its own clock runs at half speed until that has caught up.
            let slewed_for_s =
                if clock.server.now().is_none() { skew_ms.min(0).unsigned_abs() * 2 / 1000 } else { 0 };
            tracing::warn!(
                skew_ms,
                slewed_for_s,
                "the clock of this machine is not the time that this process goes by; set it right. \
                 A process that is ahead of it runs at half speed for `slewed_for_s`"
            );
        } else if warned && !large {
            tracing::info!(skew_ms, "the clock of this machine is right again");
        }
        warned = large;
        tokio::select! {
            () = tokio::time::sleep(limits::CLOCK_SKEW_EVERY) => {}
            () = stop.cancelled() => {}
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is where the time comes from")]
fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

pub fn entropy() -> anyhow::Result<Entropy> {
    Ok(Entropy::from_seed(random_32()?))
}

pub(super) fn random_32() -> anyhow::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    SysRng.try_fill_bytes(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000;

    #[test]
    fn the_wall_clock_counts_until_the_backend_says_what_time_it_is() {
        let at = |ms: i64| Timestamp(1_800_000_000_000 + ms);
        let mono = |ms: i64| Duration::from_millis(ms.unsigned_abs());
        let mut following = Following { steady: Steady::new(mono(0), at(MINUTE)), is_server: false };
        assert_eq!(following.now(mono(10), None, at(MINUTE + 10)), at(MINUTE + 10));
        assert_eq!(following.now(mono(20), Some(at(20)), at(MINUTE + 20)), at(20), "set, not slewed");
        assert_eq!(
            following.now(mono(30), Some(at(30)), at(99 * MINUTE)),
            at(30),
            "steps of the wall clock are nothing"
        );
        assert_eq!(following.now(mono(40), Some(at(34)), at(0)), at(35), "half speed");
    }
}
