//! When to believe that a queue is empty.
//!
//! SQS counts about right: it takes a minute after the last send until its counts agree. A queue that is called empty too
//! early gets every ref of its run once more, so it is called empty once it was so at every look for that long.

use super::QUEUES_KNOWN_MAX;
use conveyor_domain::{QueueName, Timestamp};
use conveyor_store::port::Emptiness;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Looks that are further apart than this say nothing of the time between them, unless those before were about as far apart:
/// then it is how long a pass over all queues takes.
const LOOKS_APART_MAX: Duration = Duration::from_secs(60);

/// How long a queue keeps its place that is not looked at, where all are taken: longer than any pass.
const PLACE_KEPT: Duration = Duration::from_secs(3600);

/// Where all places are taken, how often those of queues that are no longer looked at are freed.
const SWEPT_EVERY: Duration = Duration::from_secs(10);

/// Looks that saw a queue empty, the first and the last of them.
#[derive(Clone, Copy, Debug)]
struct Seen {
    first: Timestamp,
    last: Timestamp,
    /// Between the last two.
    apart: Duration,
}

#[derive(Debug)]
pub struct EmptyLooks {
    /// How long a queue must have been seen empty.
    enough: Duration,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    seen: HashMap<QueueName, Seen>,
    swept: Option<Timestamp>,
}

impl Known {
    /// Whether there is a place for one more queue. Those that are still looked at keep theirs, or with more queues than
    /// places none would ever be believed: the others' turn comes once these are believed and forgotten.
    fn has_place(&mut self, now: Timestamp) -> bool {
        let full = |seen: &HashMap<_, _>| seen.len() >= QUEUES_KNOWN_MAX;
        if full(&self.seen) && self.swept.is_none_or(|at| now < at || at.after(SWEPT_EVERY) <= now) {
            self.swept = Some(now);
            self.seen.retain(|_, looks| looks.last <= now && looks.last.until(now) <= PLACE_KEPT);
        }
        !full(&self.seen)
    }
}

impl EmptyLooks {
    pub fn new(enough: Duration) -> EmptyLooks {
        EmptyLooks { enough, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A look at a queue that showed nothing. Whether that is enough to believe it, or when it will be.
    pub fn believe(&self, queue: QueueName, now: Timestamp) -> Emptiness {
        let mut known = self.known();
        if !known.seen.contains_key(&queue) && !known.has_place(now) {
            return Emptiness::Unsure(now.after(self.enough));
        }
        let entry = known.seen.entry(queue).or_insert(Seen { first: now, last: now, apart: Duration::ZERO });
        let apart = entry.last.until(now);
        let apart_max = self.enough.max(LOOKS_APART_MAX).max(entry.apart * 2);
        if apart > apart_max || now < entry.last {
            entry.first = now;
        }
        (entry.last, entry.apart) = (now, apart);
        let sure = entry.first.after(self.enough);
        if sure <= now { Emptiness::Empty } else { Emptiness::Unsure(sure) }
    }

    /// It is not empty, or is not to be called so because of what was seen before.
    pub fn forget(&self, queue: QueueName) {
        self.known().seen.remove(&queue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::RunId;

    const QUEUE: QueueName = QueueName::Control;

    fn at(s: i64) -> Timestamp {
        Timestamp(1_800_000_000_000 + s * 1_000)
    }

    fn minute() -> EmptyLooks {
        EmptyLooks::new(Duration::from_secs(60))
    }

    #[test]
    fn looks_may_be_further_apart_than_the_time_that_is_enough() {
        let looks = EmptyLooks::new(Duration::from_secs(2));
        assert_eq!(looks.believe(QUEUE, at(0)), Emptiness::Unsure(at(2)));
        assert_eq!(looks.believe(QUEUE, at(5)), Emptiness::Empty);
    }

    #[test]
    fn a_queue_is_empty_once_it_was_so_for_a_minute() {
        let looks = minute();
        for s in [0, 20, 40, 59] {
            assert_eq!(looks.believe(QUEUE, at(s)), Emptiness::Unsure(at(60)), "{s}");
        }
        assert_eq!(looks.believe(QUEUE, at(60)), Emptiness::Empty);
        assert_eq!(looks.believe(QUEUE, at(65)), Emptiness::Empty, "and stays so");
    }

    #[test]
    fn a_message_in_between_starts_it_anew() {
        let looks = minute();
        looks.believe(QUEUE, at(0));
        looks.forget(QUEUE);
        assert_eq!(looks.believe(QUEUE, at(60)), Emptiness::Unsure(at(120)));
        assert_eq!(looks.believe(QUEUE, at(120)), Emptiness::Empty);
    }

    #[test]
    fn looks_that_are_far_apart_prove_nothing() {
        let looks = minute();
        assert_eq!(looks.believe(QUEUE, at(0)), Emptiness::Unsure(at(60)));
        assert_eq!(looks.believe(QUEUE, at(3_600)), Emptiness::Unsure(at(3_660)));
        assert_eq!(looks.believe(QUEUE, at(3_660)), Emptiness::Empty);
    }

    #[test]
    fn a_pass_that_takes_long_proves_it_one_pass_later() {
        let (looks, pass) = (minute(), 300);
        assert_eq!(looks.believe(QUEUE, at(0)), Emptiness::Unsure(at(60)));
        assert_eq!(looks.believe(QUEUE, at(pass)), Emptiness::Unsure(at(pass + 60)));
        assert_eq!(looks.believe(QUEUE, at(2 * pass + 30)), Emptiness::Empty);
        // A process that was stopped in between.
        let stopped = at(2 * pass + 30 + 3_600);
        assert_eq!(looks.believe(QUEUE, stopped), Emptiness::Unsure(stopped.after(looks.enough)));
    }

    #[test]
    fn more_queues_than_places_are_believed_by_turns_however_long_a_pass_takes() {
        let looks = minute();
        let queues = QUEUES_KNOWN_MAX as i64 + 1_000;
        let mut believed = std::collections::HashSet::new();
        for pass in 0..8 {
            for n in 0..queues {
                let queue = QueueName::Run(RunId::from_bytes((n as u128).to_be_bytes()));
                if looks.believe(queue, at(pass * 300 + n * 300 / queues)) == Emptiness::Empty {
                    looks.forget(queue);
                    believed.insert(n);
                }
            }
        }
        assert_eq!(believed.len() as i64, queues);
    }

    #[test]
    fn a_clock_that_is_set_back_proves_nothing() {
        let looks = minute();
        assert_eq!(looks.believe(QUEUE, at(1_000)), Emptiness::Unsure(at(1_060)));
        assert_eq!(looks.believe(QUEUE, at(0)), Emptiness::Unsure(at(60)));
        assert_eq!(looks.believe(QUEUE, at(59)), Emptiness::Unsure(at(60)));
        assert_eq!(looks.believe(QUEUE, at(60)), Emptiness::Empty);
    }

    #[test]
    fn more_queues_than_places_are_believed_by_turns() {
        let looks = minute();
        let queue = |n: u128| QueueName::Run(RunId::from_bytes(n.to_be_bytes()));
        let rounds: Vec<usize> = (0..=6)
            .map(|round| {
                let all = (0..QUEUES_KNOWN_MAX as u128 + 1_000).map(queue);
                let empty = all.filter(|queue| looks.believe(*queue, at(round * 20)) == Emptiness::Empty);
                // They get their messages again.
                empty.inspect(|queue| looks.forget(*queue)).count()
            })
            .collect();
        assert_eq!(rounds, [0, 0, 0, QUEUES_KNOWN_MAX, 0, 0, 1_000]);
    }

    #[test]
    fn none_is_enough_where_counts_are_exact() {
        assert_eq!(EmptyLooks::new(Duration::ZERO).believe(QUEUE, at(0)), Emptiness::Empty);
    }
}
