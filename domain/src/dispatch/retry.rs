//! When to try again (SPEC 8).

use crate::{Entropy, Exponential, Timestamp, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    pub attempts_max: u32,
    pub base: Duration,
    pub cap: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        RetryPolicy { attempts_max: limits::ATTEMPTS_MAX, base: limits::RETRY_BASE, cap: limits::RETRY_CAP }
    }
}

/// How often and when a task is tried again. What is left out is up to the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"attempts_max": 4, "base_ms": 1000, "cap_ms": 60000}]))]
pub struct RetryChoice {
    /// How often a task is tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts_max: Option<u32>,
    /// How long the first retry waits, in milliseconds; each next one waits twice as long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_ms: Option<u64>,
    /// The longest wait before a retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap_ms: Option<u64>,
}

impl RetryChoice {
    pub fn is_default(&self) -> bool {
        *self == RetryChoice::default()
    }

    pub fn over(self, usual: RetryPolicy) -> RetryPolicy {
        RetryPolicy {
            attempts_max: self.attempts_max.unwrap_or(usual.attempts_max),
            base: self.base_ms.map_or(usual.base, Duration::from_millis),
            cap: self.cap_ms.map_or(usual.cap, Duration::from_millis),
        }
    }
}

impl RetryPolicy {
    /// When the attempt after number `attempt` (from 1) is due, or `None` if that was the last one.
    /// Exponential backoff with jitter, and no sooner than the answer asked for.
    pub fn next_attempt(
        &self,
        attempt: u32,
        retry_after: Option<Duration>,
        now: Timestamp,
        entropy: &Entropy,
    ) -> Option<Timestamp> {
        if attempt >= self.attempts_max {
            return None;
        }
        let jittered = Exponential::new(self.base, self.cap).jittered(attempt, entropy);
        let floor = retry_after.unwrap_or_default().min(limits::RETRY_AFTER_MAX);
        Some(now.after(jittered.max(floor)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn delay_stays_within_its_bounds(
            attempt in 1u32..100, seed: u64, base_ms in 1u64..10_000, cap_ms in 1u64..100_000,
            after_s in proptest::option::of(0u64..10_000),
        ) {
            let policy = RetryPolicy {
                attempts_max: 50,
                base: Duration::from_millis(base_ms),
                cap: Duration::from_millis(cap_ms),
            };
            let retry_after = after_s.map(Duration::from_secs);
            let due = policy.next_attempt(attempt, retry_after, Timestamp(1_000), &Entropy::from_number(seed));
            if attempt >= 50 {
                prop_assert_eq!(due, None);
            } else {
                let delay = Timestamp(1_000).until(due.unwrap());
                let floor = retry_after.unwrap_or_default().min(limits::RETRY_AFTER_MAX);
                prop_assert!(delay >= floor);
                prop_assert!(delay <= policy.cap.max(floor));
            }
        }
    }
}
