//! What this process has read and need not read again. Bounded: forgetting costs a read.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

const REMEMBERED_MAX: usize = 10_000;

#[derive(Debug)]
pub struct Remembered<K, V>(Mutex<HashMap<K, V>>);

impl<K, V> Default for Remembered<K, V> {
    fn default() -> Self {
        Remembered(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Clone> Remembered<K, V> {
    pub fn remember(&self, key: K, value: V) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED_MAX && !known.contains_key(&key) {
            known.clear();
        }
        known.insert(key, value);
    }

    pub fn keys(&self) -> Vec<K>
    where
        K: Clone,
    {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    pub fn recall(&self, key: &K) -> Option<V> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_holds_more_than_it_may() {
        let numbers = Remembered::default();
        for number in 0..=REMEMBERED_MAX {
            numbers.remember(number, number);
            assert_eq!(numbers.recall(&number), Some(number));
        }
        assert_eq!(numbers.recall(&0), None);
        assert!(numbers.0.lock().unwrap().len() <= REMEMBERED_MAX);
    }
}
