//! Room for tasks in this process. Callers share it by a dynamic threshold (SPEC 8): calls of one caller that hang leave
//! slots to the others.

use conveyor_domain::{CallerId, limits};
use conveyor_turns::Places;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::time::Instant;

/// The worker's slots.
#[derive(Clone, Debug)]
pub struct Slots(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    freed: Arc<Notify>,
}

#[derive(Debug)]
struct State {
    places: Places,
    /// When a slot was last given to a caller that has any, and to any.
    given: HashMap<CallerId, Instant>,
    last_given: Instant,
}

/// One of the worker's slots; given back when dropped.
#[derive(Debug)]
pub struct Slot {
    slots: Slots,
    caller: CallerId,
}

impl Slots {
    pub fn new(max: u32, freed: Arc<Notify>) -> Slots {
        let places = places(max);
        let state = State { places, given: HashMap::new(), last_given: Instant::now() };
        Slots(Arc::new(Shared { state: Mutex::new(state), freed }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn free(&self) -> u32 {
        count(self.lock().places.free())
    }

    /// How many more a caller may have now.
    pub fn room_for(&self, caller: CallerId) -> u32 {
        count(self.lock().places.room_for(caller))
    }

    pub fn take(&self, caller: CallerId) -> Option<Slot> {
        let mut state = self.lock();
        if !state.places.has_room_for(caller) {
            return None;
        }
        state.places.take(caller);
        state.last_given = Instant::now();
        let now = state.last_given;
        state.given.insert(caller, now);
        Some(Slot { slots: self.clone(), caller })
    }

    /// Calls that do not end have all slots that a caller may have: another worker may have a free one.
    pub fn is_stuck(&self, caller: CallerId) -> bool {
        let state = self.lock();
        let given = state.given.get(&caller).copied().unwrap_or(state.last_given);
        !state.places.has_room_for(caller) && given.elapsed() >= limits::START_WAIT_MAX
    }
}

/// The most that one caller gets of so many slots.
pub fn most_of_caller(slots: u32) -> u32 {
    count(places(slots).room_for(CallerId::from_bytes([0; 16])))
}

fn places(max: u32) -> Places {
    Places::leaving_one_in(limits::SLOTS_LEFT_PART, max as usize)
}

fn count(slots: usize) -> u32 {
    u32::try_from(slots).unwrap_or(u32::MAX)
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.slots.lock();
        state.places.leave(self.caller);
        if state.places.held_by(self.caller) == 0 {
            state.given.remove(&self.caller);
        }
        // Free first, then tell: whoever is woken must find it free.
        drop(state);
        self.slots.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_caller_whose_calls_hang_is_stuck_and_others_are_not() {
        let (slots, [one, other]) =
            (Slots::new(8, Arc::default()), [1, 2].map(|n| CallerId::from_bytes([n; 16])));
        let mut hanging: Vec<Slot> = std::iter::from_fn(|| slots.take(one)).collect();
        assert_eq!((hanging.len(), most_of_caller(8), slots.free()), (7, 7, 1));
        tokio::time::advance(limits::START_WAIT_MAX).await;
        let last = slots.take(other).unwrap();
        assert!(slots.is_stuck(one) && !slots.is_stuck(other));
        drop(last);
        assert_eq!((slots.room_for(one), slots.room_for(other)), (0, 1));
        hanging.pop();
        assert!(!slots.is_stuck(one) && slots.take(one).is_some());
    }
}
