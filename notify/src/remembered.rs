//! What is known of receivers. A caller with many of them has its own forgotten, not those of others (SPEC 6.21).

use conveyor_domain::{CallerId, limits};
use std::collections::HashMap;

/// A receiver of one caller, by a hash of what names it: other callers' experience with the same host is not theirs.
pub type Receiver = (CallerId, u64);

/// How a receiver answered, and how many tries to it are under way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub under_way: usize,
    /// Whether it answered the last try; `None` if it was never tried.
    pub heard: Option<bool>,
    pub is_slow: bool,
}

#[derive(Debug, Default)]
pub struct Remembered {
    of: HashMap<CallerId, HashMap<u64, Seen>>,
    count: usize,
}

impl Remembered {
    pub fn get(&self, (caller, name): Receiver) -> Seen {
        self.of.get(&caller).and_then(|own| own.get(&name)).copied().unwrap_or_default()
    }

    /// What is known of a receiver, if anything is.
    pub fn known(&mut self, (caller, name): Receiver) -> Option<&mut Seen> {
        self.of.get_mut(&caller)?.get_mut(&name)
    }

    /// What is known of a receiver; it is remembered from now on.
    pub fn entry(&mut self, receiver: Receiver) -> &mut Seen {
        let (caller, name) = receiver;
        if self.known(receiver).is_none() {
            if self.count >= limits::RECEIVERS_REMEMBERED_MAX {
                self.forget();
            }
            self.count += 1;
        }
        self.of.entry(caller).or_default().entry(name).or_default()
    }

    /// Forgets the idle receivers of the caller that has most. What is forgotten is found out again by a few tries.
    fn forget(&mut self) {
        let idle = |own: &HashMap<u64, Seen>| own.values().filter(|seen| seen.under_way == 0).count();
        let Some((caller, own)) = self.of.iter_mut().max_by_key(|(_, own)| idle(own)) else { return };
        let (caller, before) = (*caller, own.len());
        own.retain(|_, seen| seen.under_way > 0);
        self.count -= before - own.len();
        if own.is_empty() {
            self.of.remove(&caller);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_receivers_of_one_caller_do_not_make_others_forgotten() {
        let (mut remembered, [one, other]) =
            (Remembered::default(), [1, 2].map(|n| CallerId::from_bytes([n; 16])));
        remembered.entry((other, 0)).is_slow = true;
        remembered.entry((one, 0)).under_way = 1;
        for name in 1..=2 * limits::RECEIVERS_REMEMBERED_MAX as u64 {
            remembered.entry((one, name)).heard = Some(true);
            assert!(remembered.count <= limits::RECEIVERS_REMEMBERED_MAX);
        }
        assert!(remembered.get((other, 0)).is_slow);
        assert_eq!(remembered.get((one, 0)).under_way, 1, "a try is under way");
        assert_eq!(remembered.get((one, 1)).heard, None);
        assert_eq!(remembered.count, remembered.of.values().map(HashMap::len).sum::<usize>());
    }
}
