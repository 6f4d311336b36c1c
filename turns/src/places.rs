//! Places shared by a dynamic threshold (Choudhury and Hahne, 1998).

use conveyor_domain::CallerId;
use std::collections::HashMap;

/// At most `max` places. A caller may take another one while it holds fewer than are free: alone it gets half of them (of
/// one place, that one), two callers a third each, and what is left is free for the next caller.
#[derive(Clone, Debug)]
pub struct Places {
    max: usize,
    /// A caller may hold up to so many times what is free.
    times_free: usize,
    taken: usize,
    of: HashMap<CallerId, usize>,
}

impl Places {
    pub fn new(max: usize) -> Places {
        Places::leaving_one_in(2, max)
    }

    /// Alone a caller gets all but one in so many of them, n callers all but one in `1 + n * (part - 1)`.
    pub fn leaving_one_in(part: usize, max: usize) -> Places {
        Places { max, times_free: part.saturating_sub(1).max(1), taken: 0, of: HashMap::new() }
    }

    pub fn free(&self) -> usize {
        self.max.saturating_sub(self.taken)
    }

    pub fn held_by(&self, caller: CallerId) -> usize {
        self.of.get(&caller).copied().unwrap_or(0)
    }

    pub fn has_room_for(&self, caller: CallerId) -> bool {
        self.may_hold_more(self.held_by(caller), self.free())
    }

    /// How many more a caller may take while nobody else takes or leaves any.
    pub fn room_for(&self, caller: CallerId) -> usize {
        let (held, free) = (self.held_by(caller), self.free());
        let by_threshold =
            self.times_free.saturating_mul(free).saturating_sub(held).div_ceil(self.times_free + 1);
        let but_the_last = free.saturating_sub(1).max(usize::from(held == 0).min(free));
        by_threshold.min(but_the_last)
    }

    /// The last one is for a caller that has none.
    fn may_hold_more(&self, held: usize, free: usize) -> bool {
        free > usize::from(held > 0) && held < self.times_free.saturating_mul(free)
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

    #[test]
    fn a_caller_may_get_most_of_them_and_never_the_last_one() {
        let all = |max| {
            let mut places = Places::leaving_one_in(8, max);
            let room = places.room_for(caller(1));
            (room == fill(&mut places, caller(1))).then_some(room)
        };
        assert_eq!([0, 1, 2, 5, 8, 16, 256].map(all), [0, 1, 1, 4, 7, 14, 224].map(Some));
        for held in 0..20 {
            let mut places = Places::leaving_one_in(8, 20);
            (0..held).for_each(|_| places.take(caller(1)));
            for who in [1, 2].map(caller) {
                assert_eq!(places.room_for(who), fill(&mut places.clone(), who), "{held} {who:?}");
            }
        }
        let mut places = Places::leaving_one_in(8, 256);
        assert_eq!([1, 2, 3, 4, 5].map(|n| fill(&mut places, caller(n))), [224, 28, 3, 1, 0]);
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
