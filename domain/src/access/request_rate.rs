//! How many requests a caller may send (SPEC 6.24): a bucket that fills with time, and from which each request takes one.

use crate::Timestamp;
use std::time::Duration;

/// What one request takes of a bucket: with it, a millisecond of a whole number a second is a whole number.
const REQUEST: u64 = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRate {
    per_second: u32,
    burst: u32,
}

impl RequestRate {
    /// `None` is no limit: nothing is allowed by a rate of nothing, and nobody means that.
    pub fn new(per_second: u32, burst: u32) -> Option<RequestRate> {
        (per_second > 0).then(|| RequestRate { per_second, burst: burst.max(1) })
    }

    fn full(self) -> u64 {
        u64::from(self.burst) * REQUEST
    }

    /// How long until so much has come.
    fn time_for(self, missing: u64) -> Duration {
        Duration::from_millis(missing.div_ceil(u64::from(self.per_second)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    level: u64,
    at: Timestamp,
}

/// What a request is told about its bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    pub limit: u32,
    pub remaining: u32,
    /// Until the bucket is full again.
    pub full_in: Duration,
    /// Refused: how long until there is one.
    pub wait: Option<Duration>,
}

impl Bucket {
    pub fn full(rate: RequestRate, now: Timestamp) -> Bucket {
        Bucket { level: rate.full(), at: now }
    }

    /// As it is now. A clock that goes back brings nothing.
    fn filled(self, rate: RequestRate, now: Timestamp) -> Bucket {
        let ms = u64::try_from(self.at.until(now).as_millis()).unwrap_or(u64::MAX);
        let come = ms.saturating_mul(u64::from(rate.per_second));
        Bucket { level: self.level.saturating_add(come).min(rate.full()), at: now }
    }

    /// Takes one, if there is one.
    pub fn take(&mut self, rate: RequestRate, now: Timestamp) -> Standing {
        *self = self.filled(rate, now);
        let wait = match self.level.checked_sub(REQUEST) {
            Some(level) => {
                self.level = level;
                None
            }
            None => Some(rate.time_for(REQUEST - self.level)),
        };
        Standing {
            limit: rate.burst,
            remaining: u32::try_from(self.level / REQUEST).unwrap_or(u32::MAX),
            full_in: rate.time_for(rate.full() - self.level),
            wait,
        }
    }

    /// What was taken for nothing.
    pub fn give_back(&mut self, rate: RequestRate) {
        self.level = self.level.saturating_add(REQUEST).min(rate.full());
    }

    /// Nothing is lost if it is forgotten.
    pub fn is_full(self, rate: RequestRate, now: Timestamp) -> bool {
        self.filled(rate, now).level == rate.full()
    }

    pub fn last_used(self) -> Timestamp {
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_burst_then_the_rate() {
        let rate = RequestRate::new(2, 3).unwrap();
        let mut bucket = Bucket::full(rate, Timestamp(0));
        let left: Vec<u32> = (0..3).map(|_| bucket.take(rate, Timestamp(0)).remaining).collect();
        assert_eq!(left, [2, 1, 0]);
        let refused = bucket.take(rate, Timestamp(100));
        assert_eq!((refused.wait, refused.remaining), (Some(Duration::from_millis(400)), 0));
        assert_eq!(bucket.take(rate, Timestamp(499)).wait, Some(Duration::from_millis(1)));
        let allowed = bucket.take(rate, Timestamp(500));
        assert_eq!((allowed.wait, allowed.full_in, allowed.limit), (None, Duration::from_millis(1_500), 3));
        assert!(!bucket.is_full(rate, Timestamp(1_999)) && bucket.is_full(rate, Timestamp(2_000)));
    }

    #[test]
    fn no_rate_is_no_limit_and_a_burst_is_at_least_one() {
        assert_eq!(RequestRate::new(0, 10), None);
        let rate = RequestRate::new(1, 0).unwrap();
        assert_eq!(Bucket::full(rate, Timestamp(0)).take(rate, Timestamp(0)).wait, None);
    }

    #[test]
    fn a_clock_that_goes_back_brings_nothing() {
        let rate = RequestRate::new(1, 1).unwrap();
        let mut bucket = Bucket::full(rate, Timestamp(10_000));
        assert_eq!(bucket.take(rate, Timestamp(10_000)).wait, None);
        assert!(bucket.take(rate, Timestamp(5_000)).wait.is_some());
        assert_eq!(bucket.take(rate, Timestamp(6_000)).wait, None, "and does not stop the bucket either");
    }

    proptest! {
        /// In any stretch of time no more are allowed than the burst and what came in it, and who waits as told is allowed.
        #[test]
        fn a_bucket_never_exceeds_its_rate(
            per_second in 1u32..2_000, burst in 1u32..50, waits in prop::collection::vec(0i64..40, 1..200)
        ) {
            let rate = RequestRate::new(per_second, burst).unwrap();
            let (mut bucket, mut now) = (Bucket::full(rate, Timestamp(0)), 0i64);
            let mut allowed: Vec<i64> = Vec::new();
            for wait in waits {
                now += wait;
                let standing = bucket.take(rate, Timestamp(now));
                match standing.wait {
                    None => allowed.push(now),
                    Some(wait) => {
                        let then = now + i64::try_from(wait.as_millis()).unwrap();
                        prop_assert_eq!(bucket.clone().take(rate, Timestamp(then)).wait, None);
                    }
                }
            }
            for (n, from) in allowed.iter().enumerate() {
                for (count, to) in (1u64..).zip(&allowed[n..]) {
                    let most = u64::from(burst) * 1_000 + u64::from(per_second) * u64::try_from(to - from).unwrap();
                    prop_assert!(count * 1_000 <= most);
                }
            }
        }
    }
}
