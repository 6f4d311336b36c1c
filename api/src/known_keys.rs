//! Keys that were accepted a moment ago (SPEC 6.24): a cache with a time to live, so that a busy key is one read of the store
//! every few seconds and not one a request. Only accepted keys are kept, and only so many. Requests that ask for the same key
//! at the same time share one read (single flight).

use crate::request_rates::Who;
use conveyor_domain::{KeyHash, Timestamp, limits};
use conveyor_store::Result;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::OnceCell;

/// What is asked of a key: each has rows of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Asked {
    Caller(KeyHash),
    Operator(KeyHash),
}

#[derive(Debug, Default)]
pub(crate) struct KnownKeys(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    accepted: HashMap<Asked, Accepted>,
    reads: HashMap<Asked, Arc<Read>>,
}

#[derive(Clone, Copy, Debug)]
struct Accepted {
    who: Who,
    /// Before the read that found it: whatever was revoked since then is refused within `KEY_ACCEPTED_FOR`.
    asked_at: Timestamp,
}

impl Accepted {
    /// A clock that was set back makes it old.
    fn is_fresh(&self, now: Timestamp) -> bool {
        (self.asked_at..self.asked_at.after(limits::KEY_ACCEPTED_FOR)).contains(&now)
    }
}

/// A read that several requests may wait for, with the time at which it began.
type Read = OnceCell<(Timestamp, Result<Option<Who>>)>;

impl KnownKeys {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whose key it is, from here or by `read`; `None` if it is not accepted.
    pub async fn find<F>(&self, asked: Asked, now: Timestamp, read: impl FnOnce() -> F) -> Result<Option<Who>>
    where
        F: Future<Output = Result<Option<Who>>>,
    {
        let waiting = {
            let mut known = self.known();
            if let Some(accepted) = known.accepted.get(&asked)
                && accepted.is_fresh(now)
            {
                count("cached");
                return Ok(Some(accepted.who));
            }
            Waiting { keys: self, asked, read: known.reads.entry(asked).or_default().clone() }
        };
        let reading = || async {
            count("read");
            (now, read().await)
        };
        let (asked_at, found) = waiting.read.get_or_init(reading).await.clone();
        if let Ok(Some(who)) = found {
            self.keep(&waiting, Accepted { who, asked_at }, now);
        }
        found
    }

    fn keep(&self, waiting: &Waiting<'_>, accepted: Accepted, now: Timestamp) {
        let mut known = self.known();
        // Not if the key was forgotten since the read began: the read may be older than that.
        if !known.is_reading(waiting) {
            return;
        }
        if known.accepted.len() >= limits::KEYS_ACCEPTED_MAX {
            known.accepted.retain(|_, accepted| accepted.is_fresh(now));
        }
        if known.accepted.len() < limits::KEYS_ACCEPTED_MAX {
            known.accepted.insert(waiting.asked, accepted);
        }
    }

    /// This process changed the key: the next request reads it.
    pub fn forget(&self, hash: KeyHash) {
        let mut known = self.known();
        for asked in [Asked::Caller(hash), Asked::Operator(hash)] {
            known.accepted.remove(&asked);
            known.reads.remove(&asked);
        }
    }
}

impl Known {
    fn is_reading(&self, waiting: &Waiting<'_>) -> bool {
        self.reads.get(&waiting.asked).is_some_and(|read| Arc::ptr_eq(read, &waiting.read))
    }
}

/// A request that waits for a read. The last one to leave, or the first after it is done, takes the read away.
struct Waiting<'a> {
    keys: &'a KnownKeys,
    asked: Asked,
    read: Arc<Read>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut known = self.keys.known();
        let is_last = Arc::strong_count(&self.read) == 2;
        if known.is_reading(self) && (is_last || self.read.initialized()) {
            known.reads.remove(&self.asked);
        }
    }
}

fn count(source: &'static str) {
    metrics::counter!("conveyor_key_lookups_total", "source" => source).increment(1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::CallerId;
    use conveyor_store::Error;
    use futures::future::join_all;
    use std::cell::Cell;
    use std::time::Duration;

    const NOW: Timestamp = Timestamp(1_000_000);
    const WHO: Who = Who::Caller(CallerId::from_bytes([1; 16]));

    fn key(n: usize) -> Asked {
        Asked::Caller(KeyHash::of(&n.to_string()))
    }

    /// A store that counts how often it is read, and says what it is told to.
    struct Reads(Cell<u32>);

    impl Reads {
        async fn find(
            &self,
            keys: &KnownKeys,
            asked: Asked,
            now: Timestamp,
            answer: Result<Option<Who>>,
        ) -> Result<Option<Who>> {
            let read = || async {
                self.0.set(self.0.get() + 1);
                tokio::task::yield_now().await;
                answer
            };
            keys.find(asked, now, read).await
        }
    }

    #[tokio::test]
    async fn an_accepted_key_is_read_once_within_its_time() {
        let (keys, reads) = (KnownKeys::default(), Reads(Cell::new(0)));
        let last = NOW.after(limits::KEY_ACCEPTED_FOR - Duration::from_millis(1));
        for now in [NOW, NOW, last] {
            assert_eq!(reads.find(&keys, key(1), now, Ok(Some(WHO))).await, Ok(Some(WHO)));
        }
        assert_eq!(reads.0.get(), 1);
        let over = NOW.after(limits::KEY_ACCEPTED_FOR);
        assert_eq!(reads.find(&keys, key(1), over, Ok(None)).await, Ok(None), "revoked meanwhile");
        reads.find(&keys, key(2), NOW, Ok(Some(WHO))).await.unwrap();
        assert_eq!(reads.find(&keys, key(2), Timestamp(NOW.0 - 1), Ok(None)).await, Ok(None), "set back");
    }

    #[tokio::test]
    async fn what_is_refused_or_unknown_is_not_kept() {
        let (keys, reads) = (KnownKeys::default(), Reads(Cell::new(0)));
        let failed = Err(Error::Unavailable("away".to_owned()));
        for answer in [Ok(None), failed, Ok(Some(WHO))] {
            assert_eq!(reads.find(&keys, key(1), NOW, answer.clone()).await, answer);
        }
        assert_eq!(reads.0.get(), 3);
        assert!(keys.known().reads.is_empty());
    }

    #[tokio::test]
    async fn requests_at_once_share_a_read_whatever_it_says() {
        let (keys, reads) = (KnownKeys::default(), Reads(Cell::new(0)));
        for (n, answer) in
            [Ok(Some(WHO)), Ok(None), Err(Error::Unavailable("away".to_owned()))].into_iter().enumerate()
        {
            let all = join_all((0..100).map(|_| reads.find(&keys, key(n), NOW, answer.clone()))).await;
            assert!(all.iter().all(|each| *each == answer));
            assert_eq!(reads.0.get() as usize, n + 1);
        }
        assert!(keys.known().reads.is_empty());
    }

    #[tokio::test]
    async fn a_read_that_nobody_waits_for_any_more_leaves_nothing() {
        let keys = KnownKeys::default();
        let never = keys.find(key(1), NOW, std::future::pending);
        assert!(tokio::time::timeout(Duration::ZERO, never).await.is_err());
        assert!(keys.known().reads.is_empty());
    }

    #[tokio::test]
    async fn a_read_from_before_a_change_is_not_kept() {
        let (keys, reads) = (KnownKeys::default(), Reads(Cell::new(0)));
        let hash = KeyHash::of("a");
        let early = async {
            keys.find(Asked::Caller(hash), NOW, || async {
                keys.forget(hash);
                Ok(Some(WHO))
            })
            .await
        };
        assert_eq!(early.await, Ok(Some(WHO)), "it was accepted when it was asked for");
        assert_eq!(reads.find(&keys, Asked::Caller(hash), NOW, Ok(None)).await, Ok(None));
        reads.find(&keys, Asked::Caller(hash), NOW, Ok(Some(WHO))).await.unwrap();
        keys.forget(hash);
        assert_eq!(reads.find(&keys, Asked::Caller(hash), NOW, Ok(None)).await, Ok(None));
    }

    #[tokio::test]
    async fn it_keeps_so_many_and_makes_room_when_they_are_old() {
        let (keys, reads) = (KnownKeys::default(), Reads(Cell::new(0)));
        for n in 0..=limits::KEYS_ACCEPTED_MAX {
            reads.find(&keys, key(n), NOW, Ok(Some(WHO))).await.unwrap();
        }
        assert_eq!(keys.known().accepted.len(), limits::KEYS_ACCEPTED_MAX);
        let later = NOW.after(limits::KEY_ACCEPTED_FOR);
        reads.find(&keys, key(0), later, Ok(Some(WHO))).await.unwrap();
        assert_eq!(keys.known().accepted.len(), 1);
    }
}
