//! Waiting for what another process does.

use anyhow::Result;
use std::thread;
use std::time::{Duration, Instant};

/// Asks again and again until there is an answer; none within the limit is none.
#[expect(
    clippy::disallowed_methods,
    reason = "other processes run by the wall clock, and no runtime is blocked here"
)]
pub fn until<T>(
    limit: Duration,
    every: Duration,
    mut ask: impl FnMut() -> Result<Option<T>>,
) -> Result<Option<T>> {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask()? {
            return Ok(Some(answer));
        }
        if start.elapsed() >= limit {
            return Ok(None);
        }
        thread::sleep(every);
    }
}
