//! Turns that are waited for.

use crate::{Line, Places};
use conveyor_domain::CallerId;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// At most `max` turns at once, at most `each` of a caller, under the threshold of [`Places`]. Callers that wait are called
/// round robin, however many requests each of them has.
#[derive(Clone, Debug)]
pub struct Gate(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    places: Places,
    each: usize,
    line: Line<(), oneshot::Sender<Turn>>,
    /// How long the line may be before those who left it are taken out.
    look_at: usize,
}

/// A line shorter than this is not worth a look.
const LOOK_AT_MIN: usize = 64;

/// Over when it is dropped.
#[derive(Debug)]
pub struct Turn {
    /// `None` once it is given up.
    gate: Option<Gate>,
    caller: CallerId,
}

impl Gate {
    pub fn new(max: usize, each: usize) -> Gate {
        Gate(Arc::new(Mutex::new(State {
            places: Places::new(max),
            each,
            line: Line::default(),
            look_at: LOOK_AT_MIN,
        })))
    }

    /// Waits for as long as it takes.
    pub async fn turn(&self, caller: CallerId) -> Turn {
        loop {
            let (send, called) = oneshot::channel();
            self.change(|state| state.push(caller, send));
            // Never an error: a sender stays in line until it is used.
            if let Ok(turn) = called.await {
                return turn;
            }
        }
    }

    pub fn has_turn(&self, caller: CallerId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).places.held_by(caller) > 0
    }

    /// Changes who waits or has a turn, and calls those whose turn it is then.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        let State { places, each, line, .. } = &mut *state;
        while let Some((caller, (), send)) =
            line.take(|caller, ()| places.held_by(caller) < *each && places.has_room_for(caller))
        {
            places.take(caller);
            // A request that was given up. Its turn must not ask for the lock that we hold.
            if let Err(mut turn) = send.send(Turn { gate: Some(self.clone()), caller }) {
                turn.gate = None;
                places.leave(caller);
            }
        }
    }
}

impl State {
    /// Who stopped waiting stays in line until it has doubled, so that a look costs each that joins it the same.
    fn push(&mut self, caller: CallerId, send: oneshot::Sender<Turn>) {
        if self.line.len() >= self.look_at {
            self.line.retain(|waiting| !waiting.is_closed());
            self.look_at = LOOK_AT_MIN.max(2 * self.line.len());
        }
        self.line.push(caller, (), send);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(gate) = self.gate.take() {
            gate.change(|state| state.places.leave(self.caller));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    fn callers() -> [CallerId; 3] {
        [1, 2, 3].map(|n| CallerId::from_bytes([n; 16]))
    }

    #[tokio::test]
    async fn a_caller_has_one_turn_and_leaves_the_other_to_others() {
        let (gate, [one, other, third]) = (Gate::new(2, 1), callers());
        let first = gate.turn(one).now_or_never().expect("a turn");
        let mut again = Box::pin(gate.turn(one));
        assert!(again.as_mut().now_or_never().is_none());
        let second = gate.turn(other).now_or_never().expect("a turn");
        assert!(gate.turn(third).now_or_never().is_none(), "all are taken");
        drop(second);
        assert!(again.as_mut().now_or_never().is_none(), "still its second");
        drop(first);
        let first = again.await;
        assert!(gate.turn(third).now_or_never().is_some(), "a request that was given up has no turn");
        drop(first);
    }

    #[tokio::test]
    async fn those_who_stop_waiting_leave_the_line() {
        let (gate, [one, other, third]) = (Gate::new(2, 1), callers());
        let (first, _second) = (gate.turn(one).await, gate.turn(other).await);
        let mut waiting = Box::pin(gate.turn(third));
        assert!(waiting.as_mut().now_or_never().is_none());
        for _ in 0..10_000 {
            assert!(gate.turn(one).now_or_never().is_none());
            assert!(gate.0.lock().unwrap().line.len() <= LOOK_AT_MIN);
        }
        drop(first);
        assert!(waiting.now_or_never().is_some(), "who waits still has its turn");
    }

    #[tokio::test]
    async fn who_has_many_requests_waits_for_who_has_one() {
        let (gate, [one, other, third]) = (Gate::new(2, 1), callers());
        let (first, _second) = (gate.turn(one).await, gate.turn(other).await);
        let mut many: Vec<_> = (0..10).map(|_| Box::pin(gate.turn(one))).collect();
        assert!(many.iter_mut().all(|waiting| waiting.as_mut().now_or_never().is_none()));
        let mut single = Box::pin(gate.turn(third));
        assert!(single.as_mut().now_or_never().is_none());
        drop(first);
        let next = many[0].as_mut().now_or_never().expect("the first in line");
        drop(next);
        assert!(single.as_mut().now_or_never().is_some(), "after one turn of the caller in front");
    }
}
