//! When to believe that a queue is empty.
//!
//! SQS counts about right: it takes a minute after the last send until its counts agree. A queue that is called empty too
//! early gets every ref of its run once more, so it is called empty once it was so at every look for that long.

use super::QUEUES_KNOWN_MAX;
use conveyor_domain::Timestamp;
use conveyor_domain::message::QueueName;
use conveyor_store::port::Emptiness;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Looks that are further apart than this say nothing of the time between them.
const LOOKS_APART_MAX: Duration = Duration::from_secs(60);

/// Looks that saw a queue empty, the first and the last of them.
#[derive(Clone, Copy, Debug)]
struct Seen {
    first: Timestamp,
    last: Timestamp,
}

#[derive(Debug)]
pub struct EmptyLooks {
    /// How long a queue must have been seen empty.
    enough: Duration,
    seen: Mutex<HashMap<QueueName, Seen>>,
}

impl EmptyLooks {
    pub fn new(enough: Duration) -> EmptyLooks {
        EmptyLooks { enough, seen: Mutex::default() }
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<QueueName, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A look at a queue that showed nothing. Whether that is enough to believe it, or when it will be.
    pub fn believe(&self, queue: QueueName, now: Timestamp) -> Emptiness {
        let mut seen = self.seen();
        if seen.len() >= QUEUES_KNOWN_MAX && !seen.contains_key(&queue) {
            seen.clear();
        }
        let entry = seen.entry(queue).or_insert(Seen { first: now, last: now });
        if entry.last.until(now) > self.enough.max(LOOKS_APART_MAX) || now < entry.last {
            entry.first = now;
        }
        entry.last = now;
        let sure = entry.first.after(self.enough);
        if sure <= now { Emptiness::Empty } else { Emptiness::Unsure(sure) }
    }

    /// It is not empty, or is not to be called so because of what was seen before.
    pub fn forget(&self, queue: QueueName) {
        self.seen().remove(&queue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_clock_that_is_set_back_proves_nothing() {
        let looks = minute();
        assert_eq!(looks.believe(QUEUE, at(1_000)), Emptiness::Unsure(at(1_060)));
        assert_eq!(looks.believe(QUEUE, at(0)), Emptiness::Unsure(at(60)));
        assert_eq!(looks.believe(QUEUE, at(59)), Emptiness::Unsure(at(60)));
        assert_eq!(looks.believe(QUEUE, at(60)), Emptiness::Empty);
    }

    #[test]
    fn none_is_enough_where_counts_are_exact() {
        assert_eq!(EmptyLooks::new(Duration::ZERO).believe(QUEUE, at(0)), Emptiness::Empty);
    }
}
