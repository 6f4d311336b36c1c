//! Timers that never ring. The real ingester has some of its own; in a simulation only the driver lets time pass, and what
//! rings when depends on nothing but the seed.

use std::sync::LazyLock;
use tokio::runtime::{Builder, Runtime};

/// Nobody ever drives it, so time stands still in it. Never dropped: that would have to wait, which nobody here may.
static FROZEN: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_current_thread().enable_time().build().expect("a runtime that is never driven needs nothing")
});

/// Calls `make`; timers that are made meanwhile never ring.
pub fn with_frozen_timers<T>(make: impl FnOnce() -> T) -> T {
    let _entered = FROZEN.enter();
    make()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::pin::Pin;
    use std::task::Poll;
    use std::time::Duration;

    #[tokio::test]
    async fn a_frozen_timer_never_rings() {
        let mut timer = with_frozen_timers(|| Box::pin(tokio::time::sleep(Duration::from_millis(1))));
        tokio::time::sleep(Duration::from_millis(20)).await;
        let rang = poll_fn(|context| Poll::Ready(Pin::new(&mut timer).poll(context).is_ready()));
        assert!(!rang.await);
    }
}
