//! Turns: so many things of one caller are worked on at once, and its others wait in the order of arrival (SPEC 6.27).

use crate::problem::{ApiError, Result};
use crate::request_rates::Who;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

#[derive(Debug)]
pub(crate) struct Turns {
    each_max: usize,
    callers: Mutex<HashMap<Who, Arc<Semaphore>>>,
}

impl Turns {
    pub fn new(each_max: usize) -> Arc<Turns> {
        Arc::new(Turns { each_max, callers: Mutex::default() })
    }

    /// A turn, unless more than so many wait for one.
    pub async fn turn(self: &Arc<Self>, who: Who, waiting_max: usize) -> Result<Option<Turn>> {
        let semaphore = || Arc::new(Semaphore::new(self.each_max));
        let own = self.lock().entry(who).or_insert_with(semaphore).clone();
        // Each that has a turn, or waits for one, has a reference; so have the map and this.
        if Arc::strong_count(&own) > 1 + self.each_max + waiting_max + 1 {
            return Ok(None);
        }
        // Whoever stops waiting leaves the same behind as whoever has had its turn.
        let mut turn = Turn { turns: self.clone(), who, permit: None };
        turn.permit = Some(own.acquire_owned().await.map_err(|e| ApiError::internal(e.to_string()))?);
        Ok(Some(turn))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Who, Arc<Semaphore>>> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Over when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Arc<Turns>,
    who: Who,
    permit: Option<OwnedSemaphorePermit>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        drop(self.permit.take());
        let mut callers = self.turns.lock();
        if callers.get(&self.who).is_some_and(|own| Arc::strong_count(own) == 1) {
            callers.remove(&self.who);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::CallerId;
    use futures::FutureExt;

    #[tokio::test]
    async fn a_caller_waits_for_itself_and_nobody_else() {
        let turns = Turns::new(2);
        let [one, other] = [1, 2].map(|n| Who::Caller(CallerId::from_bytes([n; 16])));
        let first = turns.turn(one, 9).now_or_never().unwrap();
        let second = turns.turn(one, 9).now_or_never().unwrap();
        let mut third = Box::pin(turns.turn(one, 9));
        assert!(third.as_mut().now_or_never().is_none());
        assert!(turns.turn(other, 9).now_or_never().is_some());
        assert!(turns.turn(one, 9).now_or_never().is_none(), "given up");
        assert!(turns.turn(one, 0).now_or_never().unwrap().unwrap().is_none(), "one waits already");
        drop(first);
        let third = third.await;
        drop((second, third));
        assert!(turns.lock().is_empty());
    }
}
