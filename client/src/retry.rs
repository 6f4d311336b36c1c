//! Exponential backoff with jitter between the attempts of a request.

use crate::Error;
use conveyor_domain::Entropy;
use conveyor_domain::backoff::Exponential;
use std::future::Future;
use std::time::Duration;

/// How often a request is repeated, and how long the client waits in between.
#[derive(Clone, Copy, Debug)]
pub struct Retries {
    pub max: u32,
    pub base: Duration,
    /// Also the longest wait that a server can ask for with `Retry-After`.
    pub cap: Duration,
}

impl Retries {
    /// Every request is sent once, and none has an `Idempotency-Key` of the client's making.
    pub const NONE: Retries = Retries { max: 0, base: Duration::ZERO, cap: Duration::ZERO };
    /// For single requests: a person may be waiting for the answer.
    pub const SHORT: Retries =
        Retries { max: 3, base: Duration::from_millis(100), cap: Duration::from_secs(2) };
    /// For uploads and event streams, which last: long enough for a server to restart.
    pub const LONG: Retries =
        Retries { max: 6, base: Duration::from_millis(250), cap: Duration::from_secs(8) };

    /// How long to wait after so many retries: as long as the server asked for, within the cap, and never less than the
    /// backoff.
    pub(crate) fn wait(&self, retries: u32, asked: Duration, entropy: &Entropy) -> Duration {
        let backoff = Exponential::new(self.base, self.cap).jittered(retries.saturating_add(1), entropy);
        asked.clamp(backoff, self.cap.max(backoff))
    }

    /// Only for what does no harm when it is repeated.
    pub(crate) async fn run<T, F>(
        &self,
        entropy: &Entropy,
        attempt: impl Fn() -> F + Send,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>> + Send,
    {
        let mut retries = 0;
        loop {
            match attempt().await {
                Ok(answer) => return Ok(answer),
                Err(error) => match error.retry_after() {
                    Some(asked) if retries < self.max => {
                        tokio::time::sleep(self.wait(retries, asked, entropy)).await;
                        retries += 1;
                    }
                    Some(_) | None => return Err(error),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_limit_and_honour_what_was_asked() {
        let entropy = Entropy::from_number(1);
        let wait = |retries, asked| Retries::LONG.wait(retries, Duration::from_secs(asked), &entropy);
        for (retries, whole) in [(0, 250), (1, 500), (5, 8_000), (50, 8_000)] {
            let waited = wait(retries, 0).as_millis();
            assert!((whole / 2..=whole).contains(&waited), "{retries}: {waited}");
        }
        assert_eq!(wait(0, 3).as_millis(), 3_000);
        assert_eq!(wait(0, 3_600).as_millis(), 8_000);
    }
}
