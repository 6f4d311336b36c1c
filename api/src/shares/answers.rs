//! Room in memory for answers (SPEC 6.27): bytes under a dynamic threshold, as places are. An answer that is made whole holds
//! its room until it is sent, so that who reads slowly holds no more than its part.

use super::Full;
use crate::request_rates::Who;
use conveyor_domain::limits;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

#[derive(Debug)]
pub(crate) struct Answers {
    max: usize,
    held: Mutex<Held>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Held {
    all: usize,
    each: HashMap<Who, usize>,
}

impl Answers {
    pub fn new(max: usize) -> Arc<Answers> {
        Arc::new(Answers { max, held: Mutex::default(), freed: Notify::new() })
    }

    /// Room for so many bytes, or for as many as there are. Waits for what others of the caller give back. Few wait: those
    /// of its reads that have a turn.
    pub async fn room(self: &Arc<Self>, who: Who, bytes: usize) -> Result<AnswerRoom, Full> {
        let bytes = bytes.min(self.max);
        let taken = async {
            loop {
                let freed = self.freed.notified();
                tokio::pin!(freed);
                // From here on nothing that is given back is missed.
                freed.as_mut().enable();
                if self.lock().take(self.max, who, bytes) {
                    return AnswerRoom { answers: self.clone(), who, bytes };
                }
                freed.await;
            }
        };
        let taken = tokio::time::timeout(limits::PLACE_WAIT, taken).await;
        taken.map_err(|_| if self.lock().each.contains_key(&who) { Full::Own } else { Full::All })
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// Whether there was room: a caller never holds more than it leaves, unless it is a single answer.
    fn take(&mut self, max: usize, who: Who, bytes: usize) -> bool {
        let own = self.each.get(&who).copied().unwrap_or(0);
        let left = (max - self.all).checked_sub(bytes);
        let fits = left.is_some_and(|left| own == 0 || own + bytes <= left);
        if fits {
            self.all += bytes;
            self.each.insert(who, own + bytes);
            metrics::gauge!("conveyor_answer_bytes").set(self.all as f64);
        }
        fits
    }
}

/// Given back when it is dropped.
#[derive(Debug)]
pub(crate) struct AnswerRoom {
    answers: Arc<Answers>,
    who: Who,
    bytes: usize,
}

impl Drop for AnswerRoom {
    fn drop(&mut self) {
        let mut held = self.answers.lock();
        held.all -= self.bytes;
        match held.each.get_mut(&self.who) {
            Some(own) if *own > self.bytes => *own -= self.bytes,
            Some(_) | None => {
                held.each.remove(&self.who);
            }
        }
        metrics::gauge!("conveyor_answer_bytes").set(held.all as f64);
        drop(held);
        self.answers.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::CallerId;
    use futures::FutureExt;

    fn caller(n: u8) -> Who {
        Who::Caller(CallerId::from_bytes([n; 16]))
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_nothing_leaves_room_to_others_and_waits_for_its_own() {
        let answers = Answers::new(80);
        let take = |who, bytes| answers.room(who, bytes).now_or_never().and_then(Result::ok);
        let mut held: Vec<_> = std::iter::from_fn(|| take(caller(1), 10)).collect();
        assert_eq!(held.len(), 4, "half of it");
        assert_eq!(answers.room(caller(1), 10).await.unwrap_err(), Full::Own);
        let other = take(caller(2), 30).expect("one that has none");
        assert_eq!(answers.room(caller(3), 20).await.unwrap_err(), Full::All, "it does not fit");
        let mut next = Box::pin(answers.room(caller(1), 10));
        assert!(next.as_mut().now_or_never().is_none());
        drop(other);
        held.pop();
        held.push(next.await.unwrap());
        drop(held);
        assert!(answers.lock().each.is_empty() && answers.lock().all == 0);
        assert!(take(caller(1), 1_000).is_some(), "one that is larger than all of it");
    }
}
