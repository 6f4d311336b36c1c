//! One task's part of a budget, and the moment at which it may start.

use super::Share;
use conveyor_domain::{Clock, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// One task's part of a budget; given back when dropped.
#[derive(Debug)]
pub struct Use {
    share: Arc<Share>,
    started: bool,
    /// Its moment, if there is a rate, and how long that is good for.
    start: Option<(Timestamp, Duration)>,
}

impl Use {
    /// The share has counted it.
    pub(super) fn counted(share: Arc<Share>) -> Use {
        Use { share, started: false, start: None }
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
                more.await;
            }
        }
        if let Some((at, _)) = self.start {
            tokio::time::sleep(clock.now().until(at)).await;
        }
    }

    fn take_start(&mut self, now: Timestamp) -> bool {
        let mut state = self.share.lock();
        // Others may have what was ours, or the other side wants to be left alone: not before we have asked again.
        if state.lapses(now) || state.is_held(now) {
            return false;
        }
        if let Some(rate) = state.limits().rate {
            state.drop_late(now);
            let Some(at) = state.starts.pop_front() else { return false };
            self.start = Some((at, rate.late_max()));
        }
        state.unstarted -= 1;
        self.started = true;
        true
    }

    /// A moment that has passed while the task waited for something else is lost. True if it was.
    pub fn give_up_if_late(&mut self, now: Timestamp) -> bool {
        let late = self.start.take_if(|(at, late_max)| at.after(*late_max) < now).is_some();
        if late {
            self.share.lock().unstarted += 1;
            self.started = false;
        }
        late
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        {
            let mut state = self.share.lock();
            state.used -= 1;
            state.unstarted -= u32::from(!self.started);
        }
        self.share.freed.notify_one();
    }
}
