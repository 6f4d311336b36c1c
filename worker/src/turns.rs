//! Whose turn it is: deficit round robin by caller, and by run within a caller (SPEC 8). However many runs a caller has, and
//! however long they are, the next caller waits for one turn of its messages.

use conveyor_domain::{CallerId, RunId};
use std::collections::{HashMap, VecDeque};

#[derive(Debug)]
struct CallerTurn {
    caller: CallerId,
    /// What is left of its turn.
    left: u32,
    runs: VecDeque<RunId>,
}

#[derive(Debug, Default)]
pub struct Turns {
    callers: VecDeque<CallerTurn>,
}

impl Turns {
    pub fn add(&mut self, caller: CallerId, run: RunId) {
        match self.callers.iter_mut().find(|turn| turn.caller == caller) {
            Some(turn) if turn.runs.contains(&run) => {}
            Some(turn) => turn.runs.push_back(run),
            None => self.callers.push_back(CallerTurn { caller, left: 0, runs: VecDeque::from([run]) }),
        }
    }

    /// Whose turn it is stays as it was: nobody loses a place because somebody else goes.
    pub fn remove(&mut self, run: RunId) {
        self.callers.iter_mut().for_each(|turn| turn.runs.retain(|known| *known != run));
        self.callers.retain(|turn| !turn.runs.is_empty());
    }

    /// Shares `slots` out among runs with room, `quantum` messages a turn, and to a caller as many in all as it may have.
    /// Where there is not enough for all, the next call goes on where this one ended.
    pub fn share_out(
        &mut self,
        mut slots: u32,
        quantum: u32,
        room: &HashMap<RunId, u32>,
        of_caller: impl Fn(CallerId) -> u32,
    ) -> HashMap<RunId, u32> {
        let mut given: HashMap<RunId, u32> = HashMap::new();
        let mut dry = 0;
        while slots > 0 && dry < self.callers.len() {
            let Some(turn) = self.callers.front_mut() else { break };
            if turn.left == 0 {
                turn.left = quantum.max(1);
            }
            let served = turn.serve(&mut slots, of_caller(turn.caller), room, &mut given);
            dry = if served { 0 } else { dry + 1 };
            // A turn that could not be used up for want of slots goes on; one that was, or had nothing to do, is over.
            if turn.left == 0 || !served {
                turn.left = 0;
                self.callers.rotate_left(1);
            }
        }
        given
    }
}

impl CallerTurn {
    /// Gives the caller's runs what is left of its turn, one after another. True if any could take something.
    fn serve(
        &mut self,
        slots: &mut u32,
        most: u32,
        room: &HashMap<RunId, u32>,
        given: &mut HashMap<RunId, u32>,
    ) -> bool {
        let (mut served, mut dry) = (false, 0);
        let had: u32 = self.runs.iter().filter_map(|run| given.get(run)).sum();
        let mut may = most.saturating_sub(had).min(*slots);
        while self.left > 0 && may > 0 && dry < self.runs.len() {
            let Some(run) = self.runs.front().copied() else { break };
            let has = given.get(&run).copied().unwrap_or(0);
            let takes = room.get(&run).copied().unwrap_or(0).saturating_sub(has).min(self.left).min(may);
            if takes == 0 {
                dry += 1;
            } else {
                given.insert(run, has + takes);
                self.left -= takes;
                (*slots, may) = (*slots - takes, may - takes);
                (served, dry) = (true, 0);
            }
            self.runs.rotate_left(1);
        }
        served
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn caller(n: u8) -> CallerId {
        CallerId::from_bytes([n; 16])
    }

    fn run(n: u8) -> RunId {
        RunId::from_bytes([n; 16])
    }

    fn turns(of: &[(u8, u8)]) -> Turns {
        let mut turns = Turns::default();
        of.iter().for_each(|(c, r)| turns.add(caller(*c), run(*r)));
        turns
    }

    fn room(of: &[(u8, u32)]) -> HashMap<RunId, u32> {
        of.iter().map(|(r, n)| (run(*r), *n)).collect()
    }

    fn any(_: CallerId) -> u32 {
        u32::MAX
    }

    #[test]
    fn one_run_alone_gets_everything_that_its_caller_may_have() {
        let mut turns = turns(&[(1, 1)]);
        assert_eq!(turns.share_out(256, 10, &room(&[(1, 1_000)]), any), room(&[(1, 256)]));
        assert_eq!(turns.share_out(256, 10, &room(&[(1, 7)]), any), room(&[(1, 7)]));
        assert_eq!(turns.share_out(0, 10, &room(&[(1, 7)]), any), room(&[]));
        assert_eq!(turns.share_out(256, 10, &room(&[(1, 1_000)]), |_| 224), room(&[(1, 224)]));
    }

    #[test]
    fn who_has_its_share_leaves_the_rest_to_others() {
        let mut turns = turns(&[(1, 1), (1, 2), (2, 3)]);
        let full = |who| if who == caller(1) { 15 } else { u32::MAX };
        let given = turns.share_out(40, 10, &room(&[(1, 99), (2, 99), (3, 99)]), full);
        assert_eq!(given, room(&[(1, 10), (2, 5), (3, 25)]));
        let given = turns.share_out(40, 10, &room(&[(1, 99), (3, 9)]), |who| full(who).min(9) - 9);
        assert_eq!(given, room(&[]));
    }

    #[test]
    fn callers_share_whatever_the_number_of_their_runs() {
        let mut turns = turns(&[(1, 1), (1, 2), (1, 3), (2, 4)]);
        let given = turns.share_out(120, 10, &room(&[(1, 999), (2, 999), (3, 999), (4, 999)]), any);
        assert_eq!(given, room(&[(1, 20), (2, 20), (3, 20), (4, 60)]));
    }

    #[test]
    fn what_one_does_not_need_goes_to_the_others() {
        let mut turns = turns(&[(1, 1), (2, 2), (3, 3)]);
        let given = turns.share_out(100, 10, &room(&[(1, 999), (2, 5)]), any);
        assert_eq!(given, room(&[(1, 95), (2, 5)]));
    }

    #[test]
    fn slots_that_come_one_by_one_are_shared_as_well() {
        let mut turns = turns(&[(1, 1), (2, 2)]);
        let mut sums: HashMap<RunId, u32> = HashMap::new();
        for _ in 0..40 {
            for (run, n) in turns.share_out(1, 10, &room(&[(1, 99), (2, 99)]), any) {
                *sums.entry(run).or_default() += n;
            }
        }
        assert_eq!(sums, room(&[(1, 20), (2, 20)]));
    }

    #[test]
    fn a_run_that_goes_does_not_cost_the_others_their_turn() {
        let mut turns = turns(&[(1, 1), (2, 2), (3, 3)]);
        turns.share_out(10, 10, &room(&[(1, 99), (2, 99), (3, 99)]), any);
        turns.remove(run(3));
        turns.add(caller(1), run(1));
        assert_eq!(turns.share_out(1, 10, &room(&[(1, 99), (2, 99)]), any), room(&[(2, 1)]));
    }

    proptest! {
        #[test]
        fn nothing_is_given_twice_or_left_lying(
            runs in proptest::collection::vec((0u8..4, 0u32..40), 1..12), slots in 0u32..200, quantum in 1u32..20,
        ) {
            let mut turns = Turns::default();
            let mut room = HashMap::new();
            for (n, (of, has)) in (0u8..).zip(&runs) {
                turns.add(caller(*of), run(n));
                room.insert(run(n), *has);
            }
            let given = turns.share_out(slots, quantum, &room, any);
            prop_assert!(given.iter().all(|(run, n)| *n <= room[run]));
            let (all, wanted) = (given.values().sum::<u32>(), room.values().sum::<u32>());
            prop_assert_eq!(all, slots.min(wanted));
        }

        /// While both have room, no caller is ever more than a turn ahead.
        #[test]
        fn nobody_is_more_than_a_turn_ahead(steps in proptest::collection::vec(1u32..30, 1..60)) {
            let mut turns = turns(&[(1, 1), (1, 2), (2, 3)]);
            let room = room(&[(1, 1_000), (2, 1_000), (3, 1_000)]);
            let (mut first, mut second) = (0i64, 0i64);
            for slots in steps {
                let given = turns.share_out(slots, 10, &room, any);
                let of = |n| i64::from(given.get(&run(n)).copied().unwrap_or(0));
                first += of(1) + of(2);
                second += of(3);
                prop_assert!((first - second).abs() <= 10, "{first} {second}");
            }
        }
    }
}
