//! What time it is, as far as this process was told: the latest moment, and what has passed since.

use conveyor_domain::Timestamp;
use std::sync::{Mutex, PoisonError};
use tokio::time::Instant;

#[derive(Debug, Default)]
pub struct Latest(Mutex<Option<(Timestamp, Instant)>>);

impl Latest {
    pub fn learn(&self, now: Timestamp) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Never back: whoever is late says an earlier moment than it is.
        if told.is_none_or(|told| passed(told) < now) {
            *told = Some((now, Instant::now()));
        }
    }

    /// `None` if nobody has said anything yet.
    pub fn now(&self) -> Option<Timestamp> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).map(passed)
    }
}

fn passed((told, at): (Timestamp, Instant)) -> Timestamp {
    told.after(at.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn time_goes_on_from_the_latest_moment_that_was_told() {
        let latest = Latest::default();
        assert_eq!(latest.now(), None);
        latest.learn(Timestamp(1_000));
        tokio::time::advance(Duration::from_millis(500)).await;
        assert_eq!(latest.now(), Some(Timestamp(1_500)));
        latest.learn(Timestamp(1_200));
        assert_eq!(latest.now(), Some(Timestamp(1_500)), "said late");
        latest.learn(Timestamp(2_000));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(latest.now(), Some(Timestamp(2_001)));
    }
}
