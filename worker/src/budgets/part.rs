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
}

impl Use {
    /// The share has counted it.
    pub(super) fn counted(share: Arc<Share>) -> Use {
        Use { share, started: false }
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
            match self.take_start(clock.now()) {
                Start::Now => {}
                Start::At(at, late_max) => {
                    tokio::time::sleep(clock.now().until(at)).await;
                    if at.after(late_max) < clock.now() {
                        self.give_start_up();
                    }
                }
                Start::Unknown => more.await,
            }
        }
    }

    fn take_start(&mut self, now: Timestamp) -> Start {
        let mut state = self.share.lock();
        let start = match state.limits.rate {
            None => Start::Now,
            Some(rate) => {
                state.drop_late(now);
                match state.starts.pop_front() {
                    Some(at) => Start::At(at, rate.late_max()),
                    None => return Start::Unknown,
                }
            }
        };
        state.unstarted -= 1;
        self.started = true;
        start
    }

    /// The process was stopped meanwhile, and the moment has passed.
    fn give_start_up(&mut self) {
        self.share.lock().unstarted += 1;
        self.started = false;
    }
}

enum Start {
    Now,
    At(Timestamp, Duration),
    Unknown,
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
