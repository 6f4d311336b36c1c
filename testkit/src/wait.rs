//! Waiting for a condition. The deadline is real time even where tokio's time is paused: a paused runtime jumps ahead
//! whenever it is idle, also while a thread outside of it still works.

use crate::sized;
use std::fmt::{Debug, Display};
use std::time::{Duration, Instant};

/// How long anything may take on a slow, busy machine. Only a test that fails waits this long; in a soak, where lists are
/// larger, four times as long.
pub const DEADLINE: Duration = Duration::from_secs(180);
const POLL_EVERY: Duration = Duration::from_millis(20);

/// Polls until the condition holds. Fails the test with `what` after [`DEADLINE`].
pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = deadline();
    while !condition().await {
        deadline.check(&what);
        tokio::time::sleep(POLL_EVERY).await;
    }
}

/// Polls until there is a value, and returns it. Fails the test with `what` after [`DEADLINE`].
pub async fn eventually<T>(what: &str, mut poll: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = deadline();
    loop {
        if let Some(value) = poll().await {
            return value;
        }
        deadline.check(&what);
        tokio::time::sleep(POLL_EVERY).await;
    }
}

/// Polls until the value fits, and returns it. Fails the test with `what` and the last value after [`DEADLINE`].
pub async fn until_fits<T: Debug>(
    what: &str,
    mut poll: impl AsyncFnMut() -> T,
    fits: impl Fn(&T) -> bool,
) -> T {
    let deadline = deadline();
    loop {
        let value = poll().await;
        if fits(&value) {
            return value;
        }
        deadline.check(&format_args!("{what}; the last value is {value:?}"));
        tokio::time::sleep(POLL_EVERY).await;
    }
}

/// [`until`] for tests without a runtime.
pub fn until_blocking(what: &str, condition: impl FnMut() -> bool) {
    poll_blocking(what, POLL_EVERY, condition);
}

#[expect(clippy::disallowed_methods, reason = "there is no runtime that this could block")]
pub(crate) fn poll_blocking(what: &str, every: Duration, mut condition: impl FnMut() -> bool) {
    let deadline = deadline();
    while !condition() {
        deadline.check(&what);
        std::thread::sleep(every);
    }
}

struct Deadline {
    after: Duration,
    at: Instant,
}

#[expect(clippy::disallowed_methods, reason = "real time: see above")]
fn deadline() -> Deadline {
    let after = sized(DEADLINE, 4 * DEADLINE);
    Deadline { after, at: Instant::now() + after }
}

impl Deadline {
    #[expect(clippy::disallowed_methods, reason = "real time: see above")]
    fn check(&self, what: &dyn Display) {
        assert!(Instant::now() < self.at, "did not happen within {} s: {what}", self.after.as_secs());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[tokio::test]
    async fn waits_until_the_condition_holds() {
        let asked = Cell::new(0);
        let ask = || {
            asked.set(asked.get() + 1);
            asked.get()
        };
        until("the third time", || async { ask() == 3 }).await;
        assert_eq!(eventually("the fifth time", || async { (ask() == 5).then_some("five") }).await, "five");
        assert_eq!(until_fits("the sixth time", || async { ask() }, |asked| *asked == 6).await, 6);
        until_blocking("the eighth time", || ask() == 8);
        assert_eq!(asked.get(), 8);
    }
}
