//! Places that callers share: so many of all, so many of one, and never all that are left (a dynamic threshold, SPEC 6.27).

use crate::problem::{ApiError, Code};
use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub(crate) struct Places<K> {
    /// The label of its metric.
    of: &'static str,
    all_max: usize,
    each_max: usize,
    taken: Mutex<Taken<K>>,
}

#[derive(Debug)]
struct Taken<K> {
    all: usize,
    each: HashMap<K, usize>,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// The caller has as many as it may.
    Own,
    /// Nobody gets one.
    All,
}

impl Full {
    /// `own` says what the caller has too many of.
    pub fn refuse(self, code: Code, own: &str) -> ApiError {
        match self {
            Full::Own => ApiError::new(code, own),
            Full::All => ApiError::overloaded(),
        }
    }
}

impl<K: Copy + Eq + Hash + Debug> Places<K> {
    pub fn new(of: &'static str, all_max: usize, each_max: usize) -> Arc<Places<K>> {
        let taken = Mutex::new(Taken { all: 0, each: HashMap::new() });
        Arc::new(Places { of, all_max, each_max, taken })
    }

    pub fn take(self: &Arc<Self>, who: K) -> Result<Place<K>, Full> {
        let mut taken = self.lock();
        let own = taken.each.get(&who).copied().unwrap_or(0);
        let free = self.all_max.saturating_sub(taken.all);
        if free == 0 && own == 0 {
            return Err(Full::All);
        }
        if own >= self.each_max.min(free) {
            return Err(Full::Own);
        }
        taken.all += 1;
        taken.each.insert(who, own + 1);
        metrics::gauge!("conveyor_places", "of" => self.of).set(taken.all as f64);
        Ok(Place { places: self.clone(), who, number: own })
    }

    fn lock(&self) -> MutexGuard<'_, Taken<K>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place<K: Copy + Eq + Hash + Debug> {
    places: Arc<Places<K>>,
    who: K,
    /// How many its caller had when it was taken.
    pub number: usize,
}

impl<K: Copy + Eq + Hash + Debug> Place<K> {
    /// How many its caller has now, this one included.
    pub fn of_caller(&self) -> usize {
        self.places.lock().each.get(&self.who).copied().unwrap_or(0)
    }
}

impl<K: Copy + Eq + Hash + Debug> Drop for Place<K> {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        taken.all -= 1;
        match taken.each.get_mut(&self.who) {
            Some(own) if *own > 1 => *own -= 1,
            Some(_) | None => {
                taken.each.remove(&self.who);
            }
        }
        metrics::gauge!("conveyor_places", "of" => self.places.of).set(taken.all as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_has_its_part_and_gives_it_back() {
        let places = Places::new("test", 10, 2);
        let held = [places.take('a').unwrap(), places.take('a').unwrap()];
        assert_eq!(places.take('a').unwrap_err(), Full::Own);
        assert_eq!((held[1].number, held[0].of_caller()), (1, 2));
        assert!(places.take('b').is_ok());
        drop(held);
        assert!(places.lock().each.is_empty());
        assert!(places.take('a').is_ok());
    }

    #[test]
    fn whoever_has_none_finds_one_however_many_others_there_are() {
        let places = Places::new("test", 12, 100);
        let fill = |who| std::iter::from_fn(|| places.take(who).ok()).collect::<Vec<_>>();
        let one = fill('a');
        assert_eq!(one.len(), 6);
        let other = fill('b');
        assert_eq!(other.len(), 3);
        assert_eq!(fill('c').len(), 2);
        assert_eq!(fill('d').len(), 2, "the third has given its own back");
        drop(one);
        assert_eq!(fill('e').len(), 5);
        let last: Vec<_> = ('m'..).map_while(|who| places.take(who).ok()).collect();
        assert_eq!((last.len(), places.take('z').unwrap_err()), (9, Full::All));
        assert_eq!(places.take('b').unwrap_err(), Full::Own);
    }
}
