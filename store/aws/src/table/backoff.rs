//! Waits between tries of what lost a race.

use conveyor_domain::Entropy;
use conveyor_store::{Error, Result};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_millis(500);
/// Far more than any honest race takes; whoever gets here has a table that answers nothing else.
const TRIES_MAX: u32 = 60;

/// Grows with every try, and is random, so that those who met once do not meet again.
#[derive(Debug)]
pub struct Backoff<'a> {
    entropy: &'a Entropy,
    tries: u32,
    tries_max: u32,
}

impl<'a> Backoff<'a> {
    pub fn new(entropy: &'a Entropy) -> Backoff<'a> {
        Backoff { entropy, tries: 0, tries_max: TRIES_MAX }
    }

    /// For those who rather give up than come late.
    pub fn at_most(self, tries_max: u32) -> Backoff<'a> {
        Backoff { tries_max, ..self }
    }

    pub async fn wait(&mut self, what: &str) -> Result<()> {
        self.tries += 1;
        if self.tries > self.tries_max {
            return Err(Error::Unavailable(format!("{what}: too many at once")));
        }
        let most = FIRST.saturating_mul(1 << self.tries.min(10)).min(LONGEST);
        let share = (self.entropy.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        tokio::time::sleep(most.mul_f64(0.2 + 0.8 * share)).await;
        Ok(())
    }
}
