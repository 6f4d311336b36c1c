//! A clock that follows another without going back: steps forward are followed at once, steps back are slewed.

use crate::{Timestamp, limits};
use std::time::Duration;

/// The last reading of both clocks, in microseconds: halves of short intervals must not be rounded away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steady {
    monotonic_us: i64,
    now_us: i64,
}

fn us(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

impl Steady {
    pub fn new(monotonic: Duration, now: Timestamp) -> Steady {
        Steady { monotonic_us: us(monotonic), now_us: now.0.saturating_mul(1000) }
    }

    /// The time, given what the followed clock says. Differences up to `tolerance` are drift and left alone. A clock that is
    /// ahead runs at half speed until the other has caught up: what was due stays due. One that is ahead by more than
    /// [`limits::CLOCK_SLEW_MAX`] was wrong, and is set back at once.
    pub fn follow(&mut self, monotonic: Duration, target: Timestamp, tolerance: Duration) -> Timestamp {
        let passed = us(monotonic).saturating_sub(self.monotonic_us).max(0);
        let (target, tolerance) = (target.0.saturating_mul(1000), us(tolerance));
        let free = self.now_us.saturating_add(passed);
        let ahead = free.saturating_sub(target);
        self.now_us = match ahead {
            _ if ahead > us(limits::CLOCK_SLEW_MAX) || ahead < -tolerance => target,
            _ if ahead > tolerance => (self.now_us + passed / 2).max(target),
            _ => free,
        };
        self.monotonic_us = self.monotonic_us.saturating_add(passed);
        Timestamp(self.now_us.div_euclid(1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);
    const START: i64 = 1_800_000_000_000;
    const HOUR: i64 = 3_600_000;

    fn ms(ms: i64) -> Duration {
        Duration::from_millis(ms.unsigned_abs())
    }

    #[test]
    fn a_step_forward_is_followed_at_once_and_drift_is_not() {
        let mut clock = Steady::new(ms(0), Timestamp(START));
        assert_eq!(clock.follow(ms(10), Timestamp(START + 15), SECOND), Timestamp(START + 10));
        assert_eq!(clock.follow(ms(20), Timestamp(START + HOUR), SECOND), Timestamp(START + HOUR));
        assert_eq!(clock.follow(ms(30), Timestamp(START + HOUR - 500), SECOND), Timestamp(START + HOUR + 10));
    }

    #[test]
    fn a_step_back_is_made_up_for_at_half_speed() {
        let mut clock = Steady::new(ms(0), Timestamp(START + 60_000));
        let mut at = |t: i64| clock.follow(ms(t), Timestamp(START + t), SECOND).0 - START;
        assert_eq!(at(10_000), 65_000, "half speed");
        for t in 10_001..=60_000 {
            at(t);
        }
        assert_eq!(at(60_000), 90_000, "however often it is read");
        assert_eq!(at(120_000), 120_000, "it agrees after twice the step");
        assert_eq!(at(121_000), 121_000);
    }

    #[test]
    fn a_clock_that_was_days_ahead_is_set_back_at_once() {
        let mut clock = Steady::new(ms(0), Timestamp(START + 60 * 24 * HOUR));
        assert_eq!(clock.follow(ms(5), Timestamp(START), SECOND), Timestamp(START));
        let mut clock = Steady::new(ms(0), Timestamp(START + 24 * HOUR));
        assert_eq!(clock.follow(ms(10), Timestamp(START), SECOND), Timestamp(START + 24 * HOUR + 5));
    }

    proptest! {
        #[test]
        fn it_never_goes_back_by_less_than_a_day_and_ends_in_agreement(
            steps in proptest::collection::vec((0i64..5_000, -20 * HOUR..20 * HOUR), 1..40),
        ) {
            let (mut clock, mut last, mut now) = (Steady::new(ms(0), Timestamp(START)), START, 0);
            let mut wall = START;
            for (passed, step) in steps {
                now += passed;
                // Within a day of where the clock is, so that it is never set back.
                wall = (wall + passed + step).max(last - 24 * HOUR);
                let read = clock.follow(ms(now), Timestamp(wall), SECOND).0;
                prop_assert!(read >= last, "{read} < {last}");
                last = read;
            }
            let rest = 2 * (last - wall).max(0) + 1_000;
            let read = clock.follow(ms(now + rest), Timestamp(wall + rest), SECOND).0;
            prop_assert!((read - wall - rest).abs() <= 1_000, "{}", read - wall - rest);
        }
    }
}
