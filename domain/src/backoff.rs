//! Exponential backoff with jitter: `min(cap, base * 2^(failures - 1))`, of which a random half to whole is waited, so that a
//! burst of failures does not come back as one.

use crate::Entropy;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exponential {
    pub base: Duration,
    pub cap: Duration,
}

impl Exponential {
    pub const fn new(base: Duration, cap: Duration) -> Exponential {
        Exponential { base, cap }
    }

    /// The whole delay after so many failures in a row, from 1.
    pub fn delay(self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        self.base.checked_mul(1 << doublings).unwrap_or(self.cap).min(self.cap)
    }

    /// A random half to whole of it.
    pub fn jittered(self, failures: u32, entropy: &Entropy) -> Duration {
        self.delay(failures).mul_f64(0.5 + entropy.unit() / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECONDS: Exponential = Exponential::new(Duration::from_secs(1), Duration::from_secs(5));

    #[test]
    fn doubles_until_the_cap() {
        assert_eq!([0, 1, 2, 3, 4, 5, u32::MAX].map(|n| SECONDS.delay(n).as_secs()), [1, 1, 2, 4, 5, 5, 5]);
        assert_eq!(Exponential { base: Duration::MAX, ..SECONDS }.delay(9), SECONDS.cap);
    }

    proptest! {
        #[test]
        fn never_shrinks_and_jitter_takes_at_most_half(failures in 1u32..200, seed: u64) {
            prop_assert!(SECONDS.delay(failures) <= SECONDS.delay(failures + 1));
            let (whole, waited) = (SECONDS.delay(failures), SECONDS.jittered(failures, &Entropy::from_number(seed)));
            prop_assert!(waited >= whole / 2 && waited <= whole);
        }
    }
}
