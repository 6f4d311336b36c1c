//! Keys that nobody has (SPEC 6.27): a token bucket for each address. Beyond it, keys that were not accepted before are
//! looked up at a bounded concurrency, so that guessing costs the store little and locks nobody out.

use super::Peer;
use crate::problem::{ApiError, Code, Result};
use crate::request_rates::make_room;
use axum::http::Extensions;
use conveyor_domain::access::request_rate::Bucket;
use conveyor_domain::{KeyHash, RequestRate, Timestamp, limits};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;

#[derive(Debug)]
pub(crate) struct UnknownKeys {
    rate: Option<RequestRate>,
    buckets: Mutex<HashMap<IpAddr, Bucket>>,
    /// When each was last accepted.
    accepted: Mutex<HashMap<KeyHash, Timestamp>>,
    lookups: Semaphore,
    waiting: AtomicUsize,
}

impl UnknownKeys {
    /// `accepted` are keys that the store accepts now: after a start, those who have them are known like before it.
    pub fn new(
        rate: Option<RequestRate>,
        accepted: impl Iterator<Item = KeyHash>,
        now: Timestamp,
    ) -> UnknownKeys {
        let known = accepted.take(limits::KEYS_REMEMBERED_MAX).map(|key| (key, now));
        UnknownKeys {
            rate,
            buckets: Mutex::default(),
            accepted: Mutex::new(known.collect()),
            lookups: Semaphore::new(limits::UNKNOWN_KEY_LOOKUPS_MAX),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Looks up a key, unless its address has sent too many that nobody has.
    pub async fn look_up<T>(
        &self,
        extensions: &Extensions,
        key: KeyHash,
        now: Timestamp,
        lookup: impl Future<Output = Result<Option<T>>>,
    ) -> Result<Option<T>> {
        let Some(address) = extensions.get::<Peer>().map(Peer::network) else {
            return lookup.await.inspect(|found| self.learn(key, found.is_some(), now));
        };
        let is_known = lock(&self.accepted).contains_key(&key);
        // Taken before the lookup: however many come at once, no more than there are tokens are not slowed. One whose caller
        // hangs up has had its lookup.
        let had_token = !is_known && self.take_token(address, now);
        let is_slowed = !is_known && !had_token;
        let found = if is_slowed { self.slowly(lookup).await } else { lookup.await };
        if had_token && !matches!(found, Ok(None)) {
            self.give_back(address);
        }
        let found = found.inspect(|found| self.learn(key, found.is_some(), now))?;
        if found.is_none() && !had_token {
            // Revoked since it was accepted, or nobody's.
            self.take_token(address, now);
            if is_slowed {
                return Err(too_many());
            }
        }
        Ok(found)
    }

    fn learn(&self, key: KeyHash, is_known: bool, now: Timestamp) {
        match is_known {
            true => self.remember(key, now),
            false => drop(lock(&self.accepted).remove(&key)),
        }
    }

    /// Waits for its turn, in the order of arrival; refused if too many wait.
    async fn slowly<T>(&self, lookup: impl Future<Output = Result<Option<T>>>) -> Result<Option<T>> {
        let waiting = Waiting::begin(&self.waiting).ok_or_else(too_many)?;
        let _turn = self.lookups.acquire().await.map_err(|e| ApiError::internal(e.to_string()))?;
        drop(waiting);
        lookup.await
    }

    /// Whether there was one.
    fn take_token(&self, address: IpAddr, now: Timestamp) -> bool {
        let Some(rate) = self.rate else { return true };
        let mut buckets = lock(&self.buckets);
        if !buckets.contains_key(&address) {
            make_room(&mut buckets, limits::UNKNOWN_KEY_ADDRESSES_MAX, rate, now);
        }
        let bucket = buckets.entry(address).or_insert_with(|| Bucket::full(rate, now));
        bucket.take(rate, now).wait.is_none()
    }

    fn give_back(&self, address: IpAddr) {
        if let (Some(rate), Some(bucket)) = (self.rate, lock(&self.buckets).get_mut(&address)) {
            bucket.give_back(rate);
        }
    }

    fn remember(&self, key: KeyHash, now: Timestamp) {
        let mut accepted = lock(&self.accepted);
        if !accepted.contains_key(&key) && accepted.len() >= limits::KEYS_REMEMBERED_MAX {
            let oldest = accepted.iter().min_by_key(|(_, used)| **used).map(|(key, _)| *key);
            oldest.and_then(|oldest| accepted.remove(&oldest));
        }
        accepted.insert(key, now);
    }
}

/// One of those that wait for a lookup.
struct Waiting<'a>(&'a AtomicUsize);

impl Waiting<'_> {
    fn begin(count: &AtomicUsize) -> Option<Waiting<'_>> {
        let waiting = Waiting(count);
        let before = count.fetch_add(1, Ordering::Relaxed);
        (before < limits::UNKNOWN_KEY_LOOKUPS_WAITING_MAX).then_some(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn too_many() -> ApiError {
    let detail =
        "Too many unknown keys came from this address; `X-API-Key` is not one that was accepted lately.";
    ApiError::new(Code::TooManyUnknownKeys, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use std::future::{pending, ready};

    fn unknown_keys() -> UnknownKeys {
        UnknownKeys::new(super::super::Shares::default().unknown_keys, [].into_iter(), Timestamp(0))
    }

    fn from(address: [u8; 4]) -> Extensions {
        let mut extensions = Extensions::new();
        extensions.insert(Peer::new(address.into()));
        extensions
    }

    fn key(n: u32) -> KeyHash {
        KeyHash::of(&n.to_string())
    }

    async fn unknown(keys: &UnknownKeys, address: [u8; 4], n: u32, now: i64) -> Result<Option<()>> {
        keys.look_up(&from(address), key(n), Timestamp(now), ready(Ok(None))).await
    }

    #[tokio::test]
    async fn an_address_has_so_many_and_more_with_time() {
        let (keys, here) = (unknown_keys(), [127, 0, 0, 2]);
        for n in 0..limits::UNKNOWN_KEYS_BURST {
            assert_eq!(unknown(&keys, here, n, 0).await.unwrap(), None);
        }
        assert!(unknown(&keys, here, 1, 0).await.is_err());
        assert!(unknown(&keys, [127, 0, 0, 3], 1, 0).await.is_ok(), "another address");
        assert!(unknown(&keys, here, 1, 1_000).await.is_ok(), "a second later");
        let nowhere = Extensions::new();
        let free = keys.look_up(&nowhere, key(1), Timestamp(0), ready(Ok(None::<()>))).await;
        assert!(free.is_ok(), "no connection, no address");
    }

    #[tokio::test]
    async fn lookups_at_the_same_time_have_a_token_each() {
        let (keys, here) = (unknown_keys(), from([127, 0, 0, 2]));
        let look = |n, known: bool| {
            let lookup = async move { if known { Ok(Some(())) } else { pending().await } };
            keys.look_up(&here, key(n), Timestamp(0), lookup)
        };
        assert!(look(0, true).await.is_ok(), "a token that a known key did not need is given back");
        let burst = limits::UNKNOWN_KEYS_BURST;
        let most = burst + (limits::UNKNOWN_KEY_LOOKUPS_MAX + limits::UNKNOWN_KEY_LOOKUPS_WAITING_MAX) as u32;
        let mut stuck: Vec<_> = (1..=most).map(|n| Box::pin(look(n, false))).collect();
        assert!(stuck.iter_mut().all(|one| one.as_mut().now_or_never().is_none()));
        assert!(look(most + 1, false).now_or_never().unwrap().is_err(), "as many are looked up as may be");
    }

    #[tokio::test]
    async fn keys_that_the_store_accepted_at_the_start_do_not_wait() {
        let rate = super::super::Shares::default().unknown_keys;
        let keys = UnknownKeys::new(rate, [key(1), key(2)].into_iter(), Timestamp(0));
        let here = from([127, 0, 0, 2]);
        let flood = limits::UNKNOWN_KEYS_BURST as usize
            + limits::UNKNOWN_KEY_LOOKUPS_MAX
            + limits::UNKNOWN_KEY_LOOKUPS_WAITING_MAX;
        let stuck = |n| keys.look_up(&here, key(n), Timestamp(0), pending::<Result<Option<()>>>());
        let mut held: Vec<_> = (0..flood).map(|n| Box::pin(stuck(1_000 + n as u32))).collect();
        assert!(held.iter_mut().all(|one| one.as_mut().now_or_never().is_none()));
        let look =
            |n, found| keys.look_up(&here, key(n), Timestamp(0), ready(Ok(found))).now_or_never().unwrap();
        assert!(look(3, Some(())).is_err(), "unknown, and too many wait");
        assert_eq!(look(1, Some(())).unwrap(), Some(()));
        assert_eq!(look(2, None).unwrap(), None, "revoked since then");
        assert!(look(2, None).is_err(), "now it is unknown too");
    }

    #[tokio::test]
    async fn a_key_that_is_known_passes_and_others_wait_for_few_lookups() {
        let (keys, here) = (unknown_keys(), [127, 0, 0, 2]);
        let extensions = from(here);
        let known = |n| keys.look_up(&extensions, key(n), Timestamp(0), ready(Ok(Some(()))));
        assert!(known(7).await.unwrap().is_some());
        for n in 100..=100 + limits::UNKNOWN_KEYS_BURST {
            let _ = unknown(&keys, here, n, 0).await;
        }
        assert!(known(8).await.unwrap().is_some(), "a new key is looked up all the same");
        // Lookups that never end take every turn, and then all places to wait.
        let stuck = |n| keys.look_up(&extensions, key(n), Timestamp(0), pending::<Result<Option<()>>>());
        let most = limits::UNKNOWN_KEY_LOOKUPS_MAX + limits::UNKNOWN_KEY_LOOKUPS_WAITING_MAX;
        let mut held: Vec<_> = (0..most).map(|n| Box::pin(stuck(1_000 + n as u32))).collect();
        assert!(held.iter_mut().all(|one| one.as_mut().now_or_never().is_none()));
        assert!(stuck(5).now_or_never().unwrap().is_err());
        assert!(known(9).now_or_never().unwrap().is_err(), "nobody has seen this one");
        assert!(known(7).now_or_never().unwrap().is_ok(), "an accepted key does not wait");
        drop(held);
        assert!(known(9).now_or_never().unwrap().is_ok());
    }
}
