//! Waits between tries of what lost a race.

use conveyor_domain::{Entropy, Exponential};
use conveyor_store::{Error, Result};
use std::time::Duration;

const WAIT: Exponential = Exponential::new(Duration::from_millis(10), Duration::from_millis(500));
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
        tokio::time::sleep(WAIT.jittered(self.tries, self.entropy)).await;
        Ok(())
    }
}
