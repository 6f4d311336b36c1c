//! Room for messages that are still being sent after their request was answered (SPEC 5.4): a part of it for each caller, so
//! that one whose messages pile up leaves room for the others'.

use conveyor_domain::CallerId;
use conveyor_domain::limits::{KIB, SENDING_MAX_BYTES, SENDING_OF_CALLER_MAX_BYTES};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Callers beyond which those are forgotten that send nothing.
const CALLERS_KEPT: usize = 256;

/// In KiB.
#[derive(Debug)]
pub struct Sending {
    all: Arc<Semaphore>,
    callers: Mutex<HashMap<CallerId, Weak<Semaphore>>>,
}

/// Free again when it is dropped.
#[derive(Debug)]
pub struct Room {
    _own: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Default for Sending {
    fn default() -> Self {
        Sending { all: Arc::new(Semaphore::new(SENDING_MAX_BYTES / KIB)), callers: Mutex::default() }
    }
}

impl Sending {
    /// Waits for room. `None` never: the semaphores are not closed.
    pub async fn room(&self, caller: CallerId, bytes: usize) -> Option<Room> {
        let kib = bytes.min(SENDING_OF_CALLER_MAX_BYTES).div_ceil(KIB) as u32;
        let own = self.part_of(caller).acquire_many_owned(kib).await.ok()?;
        let of_all = self.all.clone().acquire_many_owned(kib).await.ok()?;
        Some(Room { _own: own, _of_all: of_all })
    }

    fn part_of(&self, caller: CallerId) -> Arc<Semaphore> {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(part) = callers.get(&caller).and_then(Weak::upgrade) {
            return part;
        }
        if callers.len() >= CALLERS_KEPT {
            callers.retain(|_, part| part.strong_count() > 0);
        }
        let part = Arc::new(Semaphore::new(SENDING_OF_CALLER_MAX_BYTES / KIB));
        callers.insert(caller, Arc::downgrade(&part));
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test]
    async fn a_caller_has_its_part_and_leaves_the_rest() {
        let sending = Sending::default();
        let caller = |n: u16| CallerId::from_bytes([n.to_be_bytes(); 8].concat().try_into().unwrap());
        let room = |n, bytes| sending.room(caller(n), bytes).now_or_never().flatten();
        let whole = room(1, 2 * SENDING_OF_CALLER_MAX_BYTES).expect("what is larger takes all of its part");
        assert!(room(1, 1).is_none());
        let others: Vec<Room> = (2..=3).filter_map(|n| room(n, SENDING_OF_CALLER_MAX_BYTES)).collect();
        assert_eq!(others.len(), 2);
        drop(whole);
        assert!(room(1, SENDING_OF_CALLER_MAX_BYTES).is_some());
        (10..1_000).for_each(|n| drop(room(n, 1)));
        assert!(sending.callers.lock().unwrap().len() <= CALLERS_KEPT);
        assert!(room(2, 1).is_none(), "who still sends is not forgotten");
    }
}
