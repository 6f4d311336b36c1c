//! Work that is broken off in the middle.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Drops the work when it has to wait for the n-th time, counted from 0. Returns its output if it was done before.
///
/// Counted in waits and not in time, so that a test breaks off at the same points on any machine.
pub async fn cancel_at<T>(n: usize, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let mut waits = 0;
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if waits == n => Poll::Ready(None),
        Poll::Pending => {
            waits += 1;
            Poll::Pending
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[tokio::test]
    async fn work_is_dropped_where_it_waits() {
        for n in 0..4 {
            let steps = Cell::new(0);
            let work = async {
                for _ in 0..2 {
                    steps.set(steps.get() + 1);
                    tokio::task::yield_now().await;
                }
                "done"
            };
            let output = cancel_at(n, work).await;
            assert_eq!((output, steps.get()), if n < 2 { (None, n + 1) } else { (Some("done"), 2) });
        }
    }
}
