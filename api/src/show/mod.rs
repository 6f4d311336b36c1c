//! What callers are shown: the domain's views as bodies of the wire.

mod clock;
mod dead_letter;
mod delivery;
mod event;
mod export;
mod ingest;
mod job;
mod key;
mod limits;
mod repair;
mod run;
mod task;
mod upload;
mod webhook;

pub(crate) use clock::{clock, clock_warnings};
pub(crate) use dead_letter::{became, letter, letter_outcome};
pub(crate) use delivery::delivery;
pub(crate) use event::event;
pub(crate) use export::{export, started_export};
pub(crate) use ingest::{ingest, list_state};
#[cfg(test)]
pub(crate) use job::domain_limits;
pub(crate) use job::job;
pub(crate) use key::{api_key, quotas, usage};
pub(crate) use limits::{Look, lease, limits, rate};
pub(crate) use repair::{audit, bodies_audit, reconciled};
pub(crate) use run::{is_there, latest_run, run};
pub(crate) use task::{history, task};
pub(crate) use upload::{input, part_target, parts, whole_target};
pub(crate) use webhook::{hmac_keys, test_sent, webhook};

pub(crate) use conveyor_wire::Time;
