//! Who is delivered to next (SPEC 6.21). Callers take turns, and so do the receivers of a caller. A receiver that takes long
//! has places of its own, so that those that answer never wait behind those that hang.

use crate::remembered::{Receiver, Remembered, Seen};
use conveyor_domain::{CallerId, Delivery, Record, RecordKey, RecordKind, Timestamp, limits};
use conveyor_store::{Due, Result, Store};
use conveyor_turns::Places;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    Quick,
    Slow,
}

impl Seen {
    fn lane(self) -> Lane {
        if self.is_slow { Lane::Slow } else { Lane::Quick }
    }

    /// More than a few only to a receiver that answers.
    fn max(self) -> usize {
        match self.heard {
            None => limits::DELIVERIES_OF_NEW_RECEIVER_MAX,
            Some(true) => limits::DELIVERIES_OF_RECEIVER_MAX,
            Some(false) => limits::DELIVERIES_OF_SILENT_RECEIVER_MAX,
        }
    }
}

/// What a try to send came to, for the tries behind it.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub heard: bool,
    pub took: Duration,
}

/// One try that is under way.
#[derive(Debug)]
pub struct Ticket {
    pub key: RecordKey,
    receiver: Receiver,
    lane: Lane,
    began: Instant,
}

#[derive(Debug)]
pub struct Desk {
    due: Due<u64>,
    quick: Places,
    slow: Places,
    seen: Remembered,
}

impl Desk {
    pub fn new() -> Desk {
        Desk {
            due: Due::new(RecordKind::Delivery),
            quick: Places::new(limits::DELIVERIES_INFLIGHT_MAX),
            slow: Places::new(limits::DELIVERIES_SLOW_MAX),
            seen: Remembered::default(),
        }
    }

    pub async fn look(&mut self, store: &Arc<dyn Store>, now: Timestamp) -> Result<()> {
        self.due.look(store, now, sort).await
    }

    /// The next try that may begin.
    pub fn next(&mut self, now: Instant) -> Option<Ticket> {
        let Desk { due, quick, slow, seen } = self;
        let (caller, name, key) = due.take(|caller, name| {
            let seen = seen.get((caller, *name));
            let places = if seen.lane() == Lane::Quick { &*quick } else { &*slow };
            seen.under_way < seen.max() && places.has_room_for(caller)
        })?;
        let receiver = (caller, name);
        let of = seen.entry(receiver);
        of.under_way += 1;
        let lane = of.lane();
        self.places(lane).take(caller);
        Some(Ticket { key, receiver, lane, began: now })
    }

    /// Tries that take long make room for others, as long as there are places for slow ones.
    pub fn shift<'a>(&mut self, under_way: impl Iterator<Item = &'a mut Ticket>, now: Instant) {
        for ticket in under_way {
            let (caller, lingers) = (ticket.receiver.0, now - ticket.began >= limits::DELIVERY_SLOW_AFTER);
            if ticket.lane == Lane::Quick && lingers && self.slow.has_room_for(caller) {
                self.quick.leave(caller);
                self.slow.take(caller);
                ticket.lane = Lane::Slow;
                self.seen.entry(ticket.receiver).is_slow = true;
            }
        }
    }

    /// A try ended. `sent` if anything was sent.
    pub fn end(&mut self, ticket: &Ticket, sent: Option<Sent>) {
        self.places(ticket.lane).leave(ticket.receiver.0);
        self.due.forget(&ticket.key);
        if let Some(seen) = self.seen.known(ticket.receiver) {
            seen.under_way = seen.under_way.saturating_sub(1);
            if let Some(Sent { heard, took }) = sent {
                (seen.heard, seen.is_slow) = (Some(heard), took >= limits::DELIVERY_SLOW_AFTER);
            }
        }
    }

    fn places(&mut self, lane: Lane) -> &mut Places {
        match lane {
            Lane::Quick => &mut self.quick,
            Lane::Slow => &mut self.slow,
        }
    }
}

/// One that cannot be read goes by its job.
fn sort(record: &Record) -> (CallerId, u64) {
    let mut hasher = DefaultHasher::new();
    match record.parse::<Delivery>() {
        Ok(delivery) => {
            delivery.receiver().hash(&mut hasher);
            (delivery.caller, hasher.finish())
        }
        Err(_) => {
            record.key.owner.hash(&mut hasher);
            (CallerId::from_bytes([0; 16]), hasher.finish())
        }
    }
}
