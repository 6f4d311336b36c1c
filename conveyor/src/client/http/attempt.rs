//! Trying again, where that can do no harm.

use super::super::failure::Failure;
use std::future::Future;
use std::time::Duration;

/// An attempt that failed, and whether another can help.
#[derive(Debug)]
pub enum Attempt {
    /// Not before the time that the server asked for, if it did.
    Retry(Failure, Option<Duration>),
    GiveUp(Failure),
}

impl Attempt {
    pub fn into_failure(self) -> Failure {
        match self {
            Attempt::Retry(failure, _) | Attempt::GiveUp(failure) => failure,
        }
    }
}

impl From<Failure> for Attempt {
    fn from(failure: Failure) -> Attempt {
        Attempt::GiveUp(failure)
    }
}

/// How often something is tried again, and how long is waited in between.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    pub retries_max: u32,
    pub base: Duration,
    /// Also the longest wait that an answer can ask for.
    pub wait_max: Duration,
}

impl Patience {
    /// A person is looking on.
    pub const SHORT: Patience =
        Patience { retries_max: 3, base: Duration::from_millis(100), wait_max: Duration::from_secs(2) };
    /// Much would be lost, or much is still to be seen: long enough for a server to be restarted.
    pub const LONG: Patience =
        Patience { retries_max: 6, base: Duration::from_millis(250), wait_max: Duration::from_secs(8) };

    /// How long to wait before the next retry, after so many.
    pub fn wait(&self, retries: u32, asked: Option<Duration>) -> Duration {
        let backoff = (self.base * 2_u32.pow(retries.min(self.retries_max))).min(self.wait_max);
        asked.unwrap_or_default().clamp(backoff, self.wait_max)
    }

    /// Only for what can be repeated without harm.
    pub async fn retry<T, F>(&self, attempt: impl Fn() -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Attempt>>,
    {
        let mut retries = 0;
        loop {
            match attempt().await {
                Ok(answer) => return Ok(answer),
                Err(Attempt::Retry(_, asked)) if retries < self.retries_max => {
                    tokio::time::sleep(self.wait(retries, asked)).await;
                    retries += 1;
                }
                Err(failed) => return Err(failed.into_failure()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_limit_and_honour_what_was_asked() {
        let wait = |retries, asked| Patience::LONG.wait(retries, asked).as_millis();
        assert_eq!([0, 1, 5, 50].map(|n| wait(n, None)), [250, 500, 8_000, 8_000]);
        assert_eq!(wait(0, Some(Duration::from_secs(3))), 3_000);
        assert_eq!(wait(0, Some(Duration::from_secs(3_600))), 8_000);
    }
}
