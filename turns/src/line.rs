//! A line of things that wait: round robin by caller, and by group within a caller.

use conveyor_domain::CallerId;
use std::collections::VecDeque;

/// First come, first served within a group; groups of a caller and callers take turns.
#[derive(Debug)]
pub struct Line<G, T> {
    callers: VecDeque<Caller<G, T>>,
    length: usize,
}

#[derive(Debug)]
struct Caller<G, T> {
    caller: CallerId,
    length: usize,
    groups: VecDeque<(G, VecDeque<T>)>,
}

impl<G, T> Default for Line<G, T> {
    fn default() -> Self {
        Line { callers: VecDeque::new(), length: 0 }
    }
}

impl<G: PartialEq, T> Line<G, T> {
    pub fn len(&self) -> usize {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub fn len_of(&self, caller: CallerId) -> usize {
        self.callers.iter().find(|known| known.caller == caller).map_or(0, |known| known.length)
    }

    pub fn push(&mut self, caller: CallerId, group: G, thing: T) {
        self.length += 1;
        let at = self.callers.iter().position(|known| known.caller == caller).unwrap_or_else(|| {
            self.callers.push_back(Caller { caller, length: 0, groups: VecDeque::new() });
            self.callers.len() - 1
        });
        let Caller { length, groups, .. } = &mut self.callers[at];
        *length += 1;
        match groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, things)) => things.push_back(thing),
            None => groups.push_back((group, VecDeque::from([thing]))),
        }
    }

    /// Keeps only what is still worth waiting for.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        for caller in &mut self.callers {
            caller.groups.iter_mut().for_each(|(_, things)| things.retain(&mut keep));
            caller.groups.retain(|(_, things)| !things.is_empty());
            caller.length = caller.groups.iter().map(|(_, things)| things.len()).sum();
        }
        self.callers.retain(|caller| caller.length > 0);
        self.length = self.callers.iter().map(|caller| caller.length).sum();
    }

    /// The next whose group may be served. Its caller, and its group within the caller, go to the end of the line.
    pub fn take(&mut self, mut may: impl FnMut(CallerId, &G) -> bool) -> Option<(CallerId, G, T)>
    where
        G: Clone,
    {
        for at in 0..self.callers.len() {
            let caller = self.callers[at].caller;
            let found = self.callers[at].groups.iter().position(|(group, _)| may(caller, group));
            let Some(found) = found else { continue };
            let mut turn = self.callers.remove(at)?;
            let (group, mut things) = turn.groups.remove(found)?;
            let thing = things.pop_front()?;
            turn.length -= 1;
            self.length -= 1;
            let taken = (caller, group.clone(), thing);
            if !things.is_empty() {
                turn.groups.push_back((group, things));
            }
            if turn.length > 0 {
                self.callers.push_back(turn);
            }
            return Some(taken);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(n: u8) -> CallerId {
        CallerId::from_bytes([n; 16])
    }

    #[test]
    fn callers_take_turns_and_so_do_the_groups_of_a_caller() {
        let mut line = Line::default();
        for n in 0..4 {
            line.push(caller(1), "a", n);
        }
        line.push(caller(1), "b", 10);
        line.push(caller(2), "a", 20);
        assert_eq!((line.len(), line.len_of(caller(1)), line.len_of(caller(3))), (6, 5, 0));
        let order: Vec<i32> = std::iter::from_fn(|| line.take(|_, _| true).map(|(.., n)| n)).collect();
        assert_eq!(order, [0, 20, 10, 1, 2, 3]);
        assert!(line.is_empty());
    }

    #[test]
    fn what_is_not_kept_leaves_nothing_behind() {
        let mut line = Line::default();
        for n in 0..6 {
            line.push(caller(n / 2), n % 3, n);
        }
        line.retain(|n| *n == 3);
        assert_eq!((line.len(), line.len_of(caller(1)), line.callers.len()), (1, 1, 1));
        assert_eq!(line.take(|_, _| true), Some((caller(1), 0, 3)));
    }

    #[test]
    fn what_may_not_be_served_does_not_hold_up_what_may() {
        let mut line = Line::default();
        line.push(caller(1), "slow", 1);
        line.push(caller(1), "quick", 2);
        line.push(caller(2), "slow", 3);
        assert_eq!(line.take(|_, group| *group == "quick"), Some((caller(1), "quick", 2)));
        assert_eq!(line.take(|_, group| *group == "quick"), None);
        assert_eq!(line.len(), 2);
        assert_eq!(line.take(|who, _| who == caller(2)), Some((caller(2), "slow", 3)));
    }
}
