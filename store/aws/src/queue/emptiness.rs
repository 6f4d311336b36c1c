//! When to believe that a queue is empty.
//!
//! SQS counts about right: it takes a minute after the last send until its counts agree. A queue that is called empty too
//! early gets every ref of its run once more, so it is called empty once it was so at every look for that long.

use super::QUEUES_KNOWN_MAX;
use conveyor_domain::Timestamp;
use conveyor_domain::message::QueueName;
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
pub struct Emptiness {
    /// How long a queue must have been seen empty.
    enough: Duration,
    seen: Mutex<HashMap<QueueName, Seen>>,
}

impl Emptiness {
    pub fn new(enough: Duration) -> Emptiness {
        Emptiness { enough, seen: Mutex::default() }
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<QueueName, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A look at a queue that showed nothing. Whether that is enough to believe it.
    pub fn believe(&self, queue: QueueName, now: Timestamp) -> bool {
        let mut seen = self.seen();
        if seen.len() >= QUEUES_KNOWN_MAX && !seen.contains_key(&queue) {
            seen.clear();
        }
        let entry = seen.entry(queue).or_insert(Seen { first: now, last: now });
        if entry.last.until(now) > self.enough.max(LOOKS_APART_MAX) || now < entry.last {
            entry.first = now;
        }
        entry.last = now;
        entry.first.until(now) >= self.enough
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

    fn minute() -> Emptiness {
        Emptiness::new(Duration::from_secs(60))
    }

    #[test]
    fn looks_may_be_further_apart_than_the_time_that_is_enough() {
        let emptiness = Emptiness::new(Duration::from_secs(2));
        assert!(!emptiness.believe(QUEUE, at(0)));
        assert!(emptiness.believe(QUEUE, at(5)));
    }

    #[test]
    fn a_queue_is_empty_once_it_was_so_for_a_minute() {
        let emptiness = minute();
        for s in [0, 20, 40, 59] {
            assert!(!emptiness.believe(QUEUE, at(s)), "{s}");
        }
        assert!(emptiness.believe(QUEUE, at(60)));
        assert!(emptiness.believe(QUEUE, at(65)), "and stays so");
    }

    #[test]
    fn a_message_in_between_starts_it_anew() {
        let emptiness = minute();
        emptiness.believe(QUEUE, at(0));
        emptiness.forget(QUEUE);
        assert!(!emptiness.believe(QUEUE, at(60)));
        assert!(emptiness.believe(QUEUE, at(120)));
    }

    #[test]
    fn looks_that_are_far_apart_prove_nothing() {
        let emptiness = minute();
        assert!(!emptiness.believe(QUEUE, at(0)));
        assert!(!emptiness.believe(QUEUE, at(3_600)));
        assert!(emptiness.believe(QUEUE, at(3_660)));
    }

    #[test]
    fn a_clock_that_is_set_back_proves_nothing() {
        let emptiness = minute();
        assert!(!emptiness.believe(QUEUE, at(1_000)));
        assert!(!emptiness.believe(QUEUE, at(0)));
        assert!(!emptiness.believe(QUEUE, at(59)));
        assert!(emptiness.believe(QUEUE, at(60)));
    }

    #[test]
    fn none_is_enough_where_counts_are_exact() {
        assert!(Emptiness::new(Duration::ZERO).believe(QUEUE, at(0)));
    }
}
