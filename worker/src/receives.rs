//! What the last receives from a run's queue were like: an empty one is not repeated at once.

use conveyor_domain::limits;
use std::time::Duration;
use tokio::time::Instant;

#[derive(Clone, Copy, Debug, Default)]
pub struct Receives {
    last: Option<Instant>,
    /// How long the queue is left alone after the last one.
    pause: Duration,
    under_way: u32,
    /// One of those that began together brought something.
    brought: bool,
}

impl Receives {
    pub fn are_due(&self) -> bool {
        self.last.is_none_or(|at| at.elapsed() >= self.pause)
    }

    pub fn under_way(&self) -> u32 {
        self.under_way
    }

    /// Whether the last one is long enough ago for one that could bring more, if it waited.
    pub fn waited_for_more(&self) -> bool {
        self.last.is_none_or(|at| at.elapsed() >= limits::RECEIVE_LINGER)
    }

    pub fn begin(&mut self) {
        self.under_way += 1;
        self.last = Some(Instant::now());
    }

    /// What one brought; `None` if it failed.
    pub fn end(&mut self, messages: Option<usize>) {
        self.under_way = self.under_way.saturating_sub(1);
        self.last = Some(Instant::now());
        self.brought |= messages.is_some_and(|messages| messages > 0);
        if self.brought {
            self.pause = Duration::ZERO;
        } else if self.under_way == 0 {
            self.pause = (self.pause * 2).clamp(limits::EMPTY_RECEIVE_PAUSE, limits::EMPTY_RECEIVE_PAUSE_MAX);
        }
        self.brought &= self.under_way > 0;
    }

    pub fn something_was_sent(&mut self) {
        self.pause = Duration::ZERO;
    }

    /// Leaves the queue alone for so long.
    pub fn rest(&mut self, pause: Duration) {
        (self.last, self.pause) = (Some(Instant::now()), pause);
    }
}
