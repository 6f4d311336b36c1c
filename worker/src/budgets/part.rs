//! One task's part of a budget, and the moment at which it may start.

use super::Share;
use super::circuit::{Ticket, Verdict};
use conveyor_domain::{Clock, Timestamp};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// One task's part of a budget; given back when dropped.
#[derive(Debug)]
pub struct Use {
    share: Arc<Share>,
    started: bool,
    /// Its moment, if there is a rate, and until when that is good.
    start: Option<(Instant, Instant)>,
    /// Its call, from the beginning to the answer.
    call: Option<Ticket>,
}

impl Use {
    /// The share has counted it.
    pub(super) fn counted(share: Arc<Share>) -> Use {
        Use { share, started: false, start: None, call: None }
    }

    pub fn share(&self) -> &Arc<Share> {
        &self.share
    }

    /// Waits for the moment at which the task may start: at once where there is no rate.
    pub async fn start(&mut self, clock: &dyn Clock) {
        while !self.started {
            let share = self.share.clone();
            let more = share.started.notified();
            tokio::pin!(more);
            more.as_mut().enable();
            if !self.take_start(clock.now()) {
                // Nobody announces the end of a hold, or that a probe takes too long.
                match share.blocked_for(clock.now()) {
                    Some(blocked) => drop(tokio::time::timeout(blocked, more).await),
                    None => more.await,
                }
            }
        }
        if let Some((at, _)) = self.start {
            tokio::time::sleep_until(at).await;
        }
    }

    fn take_start(&mut self, now: Timestamp) -> bool {
        let mut state = self.share.lock();
        // Others may have what was ours, or the other side wants to be left alone: not before we have asked again.
        if state.lapses(now) || state.is_held(now) {
            return false;
        }
        let rate = state.limits().rate;
        if rate.is_some() {
            state.drop_late();
            if state.starts.is_empty() {
                return false;
            }
        }
        let Some(call) = state.circuit.begin() else { return false };
        self.call = Some(call);
        self.start =
            rate.and_then(|rate| state.starts.pop_front().map(|start| (start.at, start.good_until(rate))));
        state.unstarted -= 1;
        state.begun = state.begun.saturating_add(1);
        self.started = true;
        true
    }

    /// A moment that has passed while the task waited for something else is lost. True if it was.
    pub fn give_up_if_late(&mut self) -> bool {
        let late = self.start.take_if(|(_, good_until)| *good_until < Instant::now()).is_some();
        if late {
            let mut state = self.share.lock();
            state.unstarted += 1;
            if let Some(call) = self.call.take() {
                state.circuit.abandon(&call);
            }
            self.started = false;
            drop(state);
            // Another one may probe the gateway in its place.
            self.share.started.notify_waiters();
        }
        late
    }

    /// Takes note of how the gateway answered; `overloaded` with how long it asked for, if it did.
    pub fn answered(&mut self, overloaded: Option<Option<Duration>>, now: Timestamp) -> Verdict {
        let Some(call) = self.call.take() else { return Verdict::Nothing };
        let verdict = {
            let mut state = self.share.lock();
            let verdict = state.circuit.answered(&call, overloaded);
            if let Verdict::BackOff(pause) = verdict {
                // In the same step, or another task would begin before the hold.
                state.hold_until(now.after(pause));
            }
            verdict
        };
        if verdict != Verdict::Nothing {
            // Those who waited for the probe now start, or wait for the end of the hold.
            self.share.started.notify_waiters();
            self.share.freed.notify_one();
        }
        verdict
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        {
            let mut state = self.share.lock();
            state.used -= 1;
            state.used_at = Some(Instant::now());
            state.unstarted -= u32::from(!self.started);
            if self.call.take().is_some_and(|call| state.circuit.abandon(&call)) {
                self.share.started.notify_waiters();
            }
        }
        self.share.freed.notify_one();
    }
}
