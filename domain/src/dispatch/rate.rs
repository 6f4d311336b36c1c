//! Rates: a token bucket of so many starts a second, with a burst (SPEC 6.7).
//!
//! A bucket hands out *starts*: moments at which a call may begin, a little ahead of time, so that the caller can be ready.
//! A full bucket hands out `burst` of them for one moment. A start is good for [`Rate::late_max`]; later it is lost. With the
//! time that the answer takes, a call begins at most [`Rate::lateness_max`] later than meant. So over any window of length t
//! there are at most `burst + per_second * (t + lateness_max)` calls.

use crate::{Timestamp, limits};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const SECOND_US: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Starts in a thousand seconds: rates are exact to three places.
    per_1000_s: u64,
    burst: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRate {
    #[error("`per_second` must be from 0.001 to {}", limits::RATE_MAX)]
    PerSecond,
    #[error("`burst` must be from 1 to {}", limits::BURST_MAX)]
    Burst,
}

impl Rate {
    /// Without a burst: what comes in a second, and at least one.
    pub fn new(per_second: f64, burst: Option<u32>) -> Result<Rate, InvalidRate> {
        let thousands = (per_second * 1000.0).round();
        if !(1.0..=f64::from(limits::RATE_MAX) * 1000.0).contains(&thousands) {
            return Err(InvalidRate::PerSecond);
        }
        let per_1000_s = thousands as u64;
        let a_second = u32::try_from(per_1000_s.div_ceil(1000)).unwrap_or(u32::MAX);
        let burst = burst.unwrap_or(a_second);
        if !(1..=limits::BURST_MAX).contains(&burst) {
            return Err(InvalidRate::Burst);
        }
        Ok(Rate { per_1000_s, burst })
    }

    pub fn per_second(self) -> f64 {
        self.per_1000_s as f64 / 1000.0
    }

    pub fn burst(self) -> u32 {
        self.burst
    }

    /// The slower of two, with the smaller burst.
    #[must_use]
    pub fn stricter(self, other: Rate) -> Rate {
        Rate { per_1000_s: self.per_1000_s.min(other.per_1000_s), burst: self.burst.min(other.burst) }
    }

    /// Between two starts, in microseconds; rounded so that it is never too short.
    fn interval_us(self) -> i64 {
        i64::try_from((1000 * SECOND_US).div_ceil(self.per_1000_s)).unwrap_or(i64::MAX)
    }

    /// Between two starts.
    pub fn interval(self) -> Duration {
        Duration::from_micros(u64::try_from(self.interval_us()).unwrap_or(0))
    }

    /// What a full bucket is ahead by.
    fn slack_us(self) -> i64 {
        i64::from(self.burst - 1).saturating_mul(self.interval_us())
    }

    /// How much later than its start a call may begin: what half of the burst is worth. A busy worker then loses no start,
    /// and the gateway sees at most half a burst more.
    pub fn late_max(self) -> Duration {
        let spare = i64::from(self.burst / 2).saturating_mul(self.interval_us());
        let spare = Duration::from_micros(u64::try_from(spare).unwrap_or(0));
        // Starts are told in milliseconds, rounded up.
        spare.saturating_sub(Duration::from_millis(1)).max(self.late_min()).min(limits::START_LATE_MAX)
    }

    /// What a call may be late by in any case: a start that is lost costs a slow rate more than a little lateness does.
    pub fn late_min(self) -> Duration {
        limits::START_LATE_MIN.max(self.interval() / limits::START_LATE_PART).min(limits::START_LATE_MAX)
    }

    /// Whether a call may come too late for one start and too early for the next.
    pub fn is_strict(self) -> bool {
        self.burst == 1 && self.interval() > self.late_min()
    }

    /// How long a request for starts may take: a start of a slower answer could be later than a rate allows.
    pub fn round_trip_max(self) -> Duration {
        self.late_max().saturating_sub(self.late_min()).max(limits::START_ROUND_TRIP_MAX)
    }

    /// How much later a call may begin than the coordinator meant: by the request's round trip, and by the lateness that is
    /// left then, which is never nothing.
    pub fn lateness_max(self) -> Duration {
        let rounding = Duration::from_millis(1);
        self.late_max().max(self.round_trip_max() + self.late_min()) + rounding
    }

    /// Starts that a time brings, rounded up.
    pub fn starts_in(self, time: Duration) -> u32 {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        u32::try_from(us.saturating_mul(self.per_1000_s).div_ceil(1000 * SECOND_US)).unwrap_or(u32::MAX)
    }
}

/// What was taken of a rate, as the moment from which a start would find the bucket full of nothing: each start moves it
/// on by one interval. A bucket that was never used, or not for long, is a default one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bucket {
    spent_until_us: i64,
}

fn us(at: Timestamp) -> i64 {
    at.0.saturating_mul(1000)
}

fn ms_rounded_up(us: i64) -> Timestamp {
    Timestamp(us.div_euclid(1000) + i64::from(us.rem_euclid(1000) > 0))
}

impl Bucket {
    /// Takes up to `want` starts, none of them later than `ahead` from now.
    pub fn take(&mut self, rate: Rate, want: u32, ahead: Duration, now: Timestamp) -> Vec<Timestamp> {
        let (interval, latest) = (rate.interval_us(), us(now.after(ahead)));
        let mut starts = Vec::new();
        for _ in 0..want {
            let start = us(now).max(self.spent_until_us.saturating_sub(rate.slack_us()));
            if start > latest {
                break;
            }
            self.spent_until_us = self.spent_until_us.max(start).saturating_add(interval);
            starts.push(ms_rounded_up(start));
        }
        starts
    }

    /// When the next start will be.
    pub fn next(&self, rate: Rate, now: Timestamp) -> Timestamp {
        ms_rounded_up(us(now).max(self.spent_until_us.saturating_sub(rate.slack_us())))
    }

    /// Starts that could be taken for this moment.
    pub fn tokens(&self, rate: Rate, now: Timestamp) -> u32 {
        let ahead = us(now).saturating_add(rate.slack_us()).saturating_sub(self.spent_until_us);
        if ahead < 0 {
            return 0;
        }
        let whole = ahead / rate.interval_us() + 1;
        u32::try_from(whole).unwrap_or(u32::MAX).min(rate.burst)
    }

    /// Whether it is as good as one that was never used.
    pub fn is_full(&self, now: Timestamp) -> bool {
        self.full_from() <= now
    }

    pub fn full_from(&self) -> Timestamp {
        ms_rounded_up(self.spent_until_us)
    }

    /// Forgets what could not have been taken at this rate by now: the rate was slower, or a clock was wrong.
    pub fn limit(&mut self, rate: Rate, ahead: Duration, now: Timestamp) {
        let most = us(now.after(ahead)).saturating_add(rate.slack_us()).saturating_add(rate.interval_us());
        self.spent_until_us = self.spent_until_us.min(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AHEAD: Duration = Duration::from_millis(400);

    fn rate(per_second: f64, burst: u32) -> Rate {
        Rate::new(per_second, Some(burst)).unwrap()
    }

    proptest! {
        /// Whoever asks when for how many, and however late within what is allowed the calls begin.
        #[test]
        fn calls_keep_to_burst_and_rate_over_any_window(
            thousandths in 100u64..2_000_000, burst in 1u32..200,
            asks in proptest::collection::vec((0i64..300, 1u32..40), 1..80),
            lateness in proptest::collection::vec(0.0f64..1.0, 50),
        ) {
            let rate = rate(thousandths as f64 / 1000.0, burst);
            let (mut bucket, mut now) = (Bucket::default(), Timestamp(1_000_000));
            let mut calls = Vec::new();
            for (pass, want) in asks {
                now = Timestamp(now.0 + pass);
                for start in bucket.take(rate, want, AHEAD, now) {
                    let late = rate.late_max().as_secs_f64() * 1000.0 * lateness[calls.len() % lateness.len()];
                    calls.push(start.0 as f64 + late);
                }
            }
            calls.sort_by(f64::total_cmp);
            // Of any window: its calls are at most `burst + rate x (its length + late_max)`. So of each call as the last of
            // a window, only the first call that makes the window worst has to be compared.
            let lateness_ms = rate.late_max().as_secs_f64() * 1000.0 + 1.0; // Starts are told in milliseconds, rounded up.
            let allowed = f64::from(burst) + rate.per_second() * lateness_ms / 1000.0;
            let mut least = f64::INFINITY;
            for (n, at_ms) in calls.iter().enumerate() {
                let ahead = n as f64 - rate.per_second() * at_ms / 1000.0;
                least = least.min(ahead);
                prop_assert!(ahead - least + 1.0 <= allowed + 1e-6, "{} > {allowed}", ahead - least + 1.0);
            }
        }

        #[test]
        fn nothing_is_lost_while_it_is_asked_for(thousandths in 1_000u64..500_000, burst in 1u32..50) {
            let rate = rate(thousandths as f64 / 1000.0, burst);
            let (mut bucket, mut taken) = (Bucket::default(), 0usize);
            for pass in 0..200 {
                taken += bucket.take(rate, u32::MAX, AHEAD, Timestamp(pass * 50)).len();
            }
            let seconds = 199.0 * 0.05 + AHEAD.as_secs_f64();
            prop_assert!(taken as f64 >= rate.per_second() * 0.999 * seconds - 1.0, "{taken}");
        }
    }

    #[test]
    fn a_burst_comes_at_once_and_then_the_rate() {
        let (rate, mut bucket) = (rate(10.0, 4), Bucket::default());
        let starts = bucket.take(rate, 9, AHEAD, Timestamp(1_000));
        assert_eq!(starts, [1_000, 1_000, 1_000, 1_000, 1_100, 1_200, 1_300, 1_400].map(Timestamp));
        assert_eq!(bucket.tokens(rate, Timestamp(1_000)), 0);
        assert_eq!(bucket.next(rate, Timestamp(1_000)), Timestamp(1_500));
        assert_eq!(bucket.tokens(rate, Timestamp(1_500)), 1);
        assert_eq!(bucket.tokens(rate, Timestamp(9_000)), 4);
        assert!(!bucket.is_full(Timestamp(1_799)) && bucket.is_full(Timestamp(1_800)));
    }

    /// A burst of N that starts N / 2 is a burst of N / 2.
    #[test]
    fn a_full_bucket_starts_its_whole_burst_at_once() {
        for burst in [1, 2, 3, 4, 10] {
            let starts = Bucket::default().take(rate(1.0, burst), 100, Duration::ZERO, Timestamp(5));
            assert_eq!(starts, vec![Timestamp(5); burst as usize]);
        }
    }

    #[test]
    fn a_slow_rate_waits_a_little_for_its_calls() {
        assert_eq!(rate(50.0, 10).late_max(), Duration::from_millis(99));
        assert_eq!(rate(50.0, 1).late_max(), Duration::from_millis(20));
        assert_eq!(rate(1.0, 1).late_max(), Duration::from_millis(50));
        assert_eq!(rate(0.001, 1).late_max(), Duration::from_secs(5));
        assert_eq!(rate(1.0, 3).late_max(), Duration::from_millis(999));
        assert!(rate(1.0, 1).is_strict() && !rate(1.0, 2).is_strict() && !rate(50.0, 1).is_strict());
        // A request may take 100 ms, and starts are told in milliseconds.
        assert_eq!(rate(50.0, 10).lateness_max(), Duration::from_millis(121));
        assert_eq!(rate(1.0, 3).lateness_max(), Duration::from_millis(1_000));
    }

    #[test]
    fn a_faster_rate_does_not_wait_for_the_slower_one() {
        let (slow, fast, mut bucket) = (rate(0.001, 1), rate(10.0, 1), Bucket::default());
        assert_eq!(bucket.take(slow, 1, AHEAD, Timestamp(0)).len(), 1);
        assert_eq!(bucket.next(fast, Timestamp(0)), Timestamp(1_000_000));
        bucket.limit(fast, AHEAD, Timestamp(0));
        assert_eq!(bucket.next(fast, Timestamp(0)), Timestamp(500));
    }

    #[test]
    fn rates_out_of_range_are_named() {
        assert_eq!(Rate::new(0.0, None), Err(InvalidRate::PerSecond));
        assert_eq!(Rate::new(f64::NAN, None), Err(InvalidRate::PerSecond));
        assert_eq!(Rate::new(1e9, None), Err(InvalidRate::PerSecond));
        assert_eq!(Rate::new(1.0, Some(0)), Err(InvalidRate::Burst));
        assert_eq!(Rate::new(2.5, None).unwrap().burst(), 3);
        assert_eq!(Rate::new(0.25, None).unwrap().burst(), 1);
    }
}
