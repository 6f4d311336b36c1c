//! Places shared by a dynamic threshold (Choudhury and Hahne, 1998).

use conveyor_domain::CallerId;
use std::collections::HashMap;

/// At most `max` places. A caller may take another one while it holds fewer than are free: alone it gets half of them (of
/// one place, that one), two callers a third each, and what is left is free for the next caller.
#[derive(Clone, Debug)]
pub struct Places {
    max: usize,
    taken: usize,
    of: HashMap<CallerId, usize>,
}

impl Places {
    pub fn new(max: usize) -> Places {
        Places { max, taken: 0, of: HashMap::new() }
    }

    pub fn free(&self) -> usize {
        self.max.saturating_sub(self.taken)
    }

    pub fn held_by(&self, caller: CallerId) -> usize {
        self.of.get(&caller).copied().unwrap_or(0)
    }

    pub fn has_room_for(&self, caller: CallerId) -> bool {
        self.held_by(caller) < self.free()
    }

    /// Takes a place, whether or not there is room: who must not wait may exceed the threshold, or even `max`.
    pub fn take(&mut self, caller: CallerId) {
        self.taken += 1;
        *self.of.entry(caller).or_default() += 1;
    }

    pub fn leave(&mut self, caller: CallerId) {
        if let Some(held) = self.of.get_mut(&caller) {
            self.taken -= 1;
            *held -= 1;
            if *held == 0 {
                self.of.remove(&caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn caller(n: u8) -> CallerId {
        CallerId::from_bytes([n; 16])
    }

    fn fill(places: &mut Places, who: CallerId) -> usize {
        let before = places.held_by(who);
        while places.has_room_for(who) {
            places.take(who);
        }
        places.held_by(who) - before
    }

    #[test]
    fn each_caller_leaves_room_for_the_next() {
        let mut places = Places::new(8);
        assert_eq!([1, 2, 3, 4, 5].map(|n| fill(&mut places, caller(n))), [4, 2, 1, 1, 0]);
        places.leave(caller(1));
        assert!(!places.has_room_for(caller(1)), "who has the most is not the first to get more");
        assert!(places.has_room_for(caller(5)));
        assert_eq!(fill(&mut Places::new(1), caller(1)), 1);
    }

    proptest! {
        /// Whatever comes and goes, a caller without a place finds one unless all are taken by callers that hold few.
        #[test]
        fn one_caller_never_holds_more_than_half(steps in proptest::collection::vec((0u8..5, any::<bool>()), 0..200)) {
            let mut places = Places::new(16);
            for (who, comes) in steps {
                let who = caller(who);
                match comes {
                    true if places.has_room_for(who) => places.take(who),
                    true => {}
                    false => places.leave(who),
                }
                let held: Vec<usize> = (0..5).map(|n| places.held_by(caller(n))).collect();
                prop_assert_eq!(held.iter().sum::<usize>(), 16 - places.free());
                prop_assert!(held.iter().all(|held| *held <= 8));
            }
        }
    }
}
