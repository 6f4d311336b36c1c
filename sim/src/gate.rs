//! Lets a future that belongs to somebody else's code do one store operation at a time: between any two of them others may
//! act, and at each of them it can be dropped, as a crash would.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;

#[derive(Debug, Default)]
struct State {
    permits: u32,
    waiting: bool,
}

/// Shut, until somebody lets a future through.
#[derive(Debug, Default)]
pub struct Gate(Mutex<State>);

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Before an operation. Nobody is woken: a future that waits here goes on when it is let through, and not before.
    pub async fn pass(&self) {
        poll_fn(|_| {
            let mut state = self.lock();
            match state.permits.checked_sub(1) {
                Some(left) => {
                    state.permits = left;
                    Poll::Ready(())
                }
                None => {
                    state.waiting = true;
                    Poll::Pending
                }
            }
        })
        .await;
    }

    /// Drives the future until it ends or stands at the gate again, after as many operations. `None` if it is not over.
    pub async fn let_through<F>(&self, future: &mut F, operations: u32) -> Option<F::Output>
    where
        F: Future + Unpin,
    {
        *self.lock() = State { permits: operations, waiting: false };
        let ended = poll_fn(|context| match Pin::new(&mut *future).poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if self.lock().waiting => Poll::Ready(None),
            // It waits for the store, or for a task of its own.
            Poll::Pending => Poll::Pending,
        })
        .await;
        *self.lock() = State::default();
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test]
    async fn a_future_does_as_many_operations_as_it_is_let() {
        let (gate, done) = (Arc::new(Gate::default()), Arc::new(AtomicU32::new(0)));
        let (inside, count) = (gate.clone(), done.clone());
        let mut work = Box::pin(async move {
            for _ in 0..5 {
                inside.pass().await;
                tokio::task::yield_now().await;
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        assert_eq!(gate.let_through(&mut work, 2).await, None);
        assert_eq!(done.load(Ordering::SeqCst), 2);
        assert_eq!(gate.let_through(&mut work, 9).await, Some(()));
        assert_eq!(done.load(Ordering::SeqCst), 5);
    }
}
