//! What the loop hears from the work that goes on beside it.

use crate::runs::{Found, Look};
use conveyor_domain::RunId;
use conveyor_domain::grant::{Limits, Scope};
use conveyor_store::Result;

#[derive(Debug)]
pub enum News {
    /// What a look around found.
    Found(Result<(Look, Found)>),
    /// What a receive brought; `None` if it failed.
    Received {
        run: RunId,
        messages: Option<usize>,
    },
    /// The sites that all tasks of a batch go to.
    Sites(RunId, Vec<(Scope, Limits)>),
    Paused(RunId),
    /// No longer running.
    Gone(RunId),
    /// Whether it is at its end could not be found out.
    EndUnknown(RunId),
}
