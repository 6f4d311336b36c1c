//! One message that a worker holds, and how far the work on its task has come.

use crate::dice::Dice;
use conveyor_domain::{TaskRef, Timestamp, limits};
use conveyor_store::port::{ClaimedTask, Receipt, RunKey, Settle};
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Flight {
    pub key: RunKey,
    pub task: TaskRef,
    pub receipt: Receipt,
    /// When its message was last hidden.
    pub hidden: Timestamp,
    pub phase: Phase,
}

#[derive(Clone, Debug)]
pub enum Phase {
    Received,
    Working {
        claimed: ClaimedTask,
        exhausted: bool,
        until: Timestamp,
    },
    /// The outcome is decided and not stored, or not known to be. Repeating it means sending exactly this again.
    Done {
        settle: Settle,
        object: Option<u64>,
    },
    Over(Return),
}

/// What becomes of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Return {
    Ack,
    Release(Duration),
}

impl Flight {
    pub fn is_worked_off(&self, now: Timestamp) -> bool {
        match self.phase {
            Phase::Working { until, .. } => until <= now,
            Phase::Received | Phase::Done { .. } | Phase::Over(_) => false,
        }
    }
}

/// The runs of these flights, each once.
pub fn runs(flights: &[Flight]) -> Vec<RunKey> {
    let mut runs: Vec<RunKey> = Vec::new();
    for flight in flights {
        if !runs.contains(&flight.key) {
            runs.push(flight.key);
        }
    }
    runs
}

/// Mostly short; now and then so long that the message has to be kept hidden, or comes back.
pub fn duration(dice: &Dice) -> Duration {
    let visibility_ms = u32::try_from(limits::VISIBILITY.as_millis()).unwrap_or(u32::MAX);
    match dice.between(0, 19) {
        0..=13 => dice.ms(0, 1_500),
        14..=18 => dice.ms(1_500, 15_000),
        _ => dice.ms(15_000, visibility_ms * 3 / 2),
    }
}
