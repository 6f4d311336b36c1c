//! What the loop hears from the work that goes on beside it.

use crate::prediction::Sites;
use crate::runs::Look;
use conveyor_domain::RunId;
use conveyor_store::Result;
use conveyor_store::port::ChangedRuns;

#[derive(Debug)]
pub enum News {
    /// What a look around found.
    Found(Result<(Look, ChangedRuns)>),
    /// What a receive brought; `None` if it failed.
    Received {
        run: RunId,
        messages: Option<usize>,
    },
    /// The sites that all of so many tasks of a batch go to.
    Sites(RunId, Sites, u32),
    Paused(RunId),
    /// No longer running.
    Gone(RunId),
    /// Whether it is at its end could not be found out.
    EndUnknown(RunId),
}
