//! Finished tasks that wait to be settled, by run. While a run's groups are being written the next one grows: the slower
//! the store, the larger the groups, and the fewer its writes.

use crate::context::RunContext;
use crate::settle::Finished;
use conveyor_domain::limits;
use conveyor_store::port::{RunKey, SettlesAtOnce};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Tasks of one run, settled together.
#[derive(Debug)]
pub struct Group {
    pub run: Arc<RunContext>,
    pub tasks: Vec<Finished>,
}

/// What became of a group's turn.
#[derive(Debug)]
pub enum TurnNews {
    Over(RunKey),
    BacksOff,
    TriesAgain,
}

#[derive(Debug)]
pub struct Waiting {
    tasks: HashMap<RunKey, VecDeque<Finished>>,
    /// Runs that have tasks here, in the order of their turns.
    turns: VecDeque<RunKey>,
    writing: HashMap<RunKey, usize>,
    /// Groups whose writing failed and that wait to try again: they keep their run's place, and nobody else's.
    backing_off: usize,
    most: SettlesAtOnce,
}

impl Waiting {
    pub fn new(most: SettlesAtOnce) -> Waiting {
        Waiting {
            tasks: HashMap::new(),
            turns: VecDeque::new(),
            writing: HashMap::new(),
            backing_off: 0,
            most,
        }
    }

    /// Nothing waits. Groups may still be written.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    pub fn add(&mut self, finished: Vec<Finished>) {
        for task in finished {
            let key = task.run.key;
            let of_run = self.tasks.entry(key).or_insert_with(|| {
                self.turns.push_back(key);
                VecDeque::new()
            });
            of_run.push_back(task);
        }
    }

    pub fn turn(&mut self, turn: TurnNews) {
        match turn {
            TurnNews::Over(run) => self.free(run),
            TurnNews::BacksOff => self.backing_off += 1,
            TurnNews::TriesAgain => self.backing_off -= 1,
        }
    }

    /// A group of this run is written.
    fn free(&mut self, run: RunKey) {
        if let Some(groups) = self.writing.get_mut(&run) {
            *groups -= 1;
            if *groups == 0 {
                self.writing.remove(&run);
            }
        }
    }

    fn has_place(&self) -> bool {
        self.writing.values().sum::<usize>() < self.most.in_all + self.backing_off
    }

    /// A group whose turn it is.
    pub fn next(&mut self) -> Option<Group> {
        if !self.has_place() {
            return None;
        }
        let has_room = |key: &RunKey| self.writing.get(key).is_none_or(|groups| *groups < self.most.of_a_run);
        let place = self.turns.iter().position(has_room)?;
        let key = self.turns.remove(place)?;
        let of_run = self.tasks.get_mut(&key)?;
        let count = of_run.len().min(limits::SETTLE_GROUP_MAX);
        let tasks: Vec<Finished> = of_run.drain(..count).collect();
        if of_run.is_empty() {
            self.tasks.remove(&key);
        } else {
            self.turns.push_back(key);
        }
        *self.writing.entry(key).or_insert(0) += 1;
        let run = tasks.first()?.run.clone();
        Some(Group { run, tasks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::{JobId, RunId};

    #[test]
    fn a_group_that_backs_off_leaves_its_place_to_others() {
        let mut waiting = Waiting::new(SettlesAtOnce { in_all: 2, of_a_run: 1 });
        let run = |n| RunKey { job: JobId::from_bytes([n; 16]), run: RunId::from_bytes([n; 16]) };
        waiting.writing.extend([(run(1), 1), (run(2), 1)]);
        assert!(!waiting.has_place());
        waiting.turn(TurnNews::BacksOff);
        assert!(waiting.has_place());
        waiting.turn(TurnNews::TriesAgain);
        assert!(!waiting.has_place());
        waiting.turn(TurnNews::Over(run(1)));
        assert!(waiting.has_place() && !waiting.writing.contains_key(&run(1)));
    }
}
