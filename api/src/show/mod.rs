//! What callers are shown: the domain's views as bodies of the wire.

mod event;
mod ingest;
mod limits;
mod repair;
mod run;
mod upload;

pub(crate) use event::event;
pub(crate) use ingest::{ingest, list_state};
pub(crate) use limits::{Look, lease, limits, rate};
pub(crate) use repair::{audit, bodies_audit, reconciled};
pub(crate) use run::{is_there, latest_run, run};
pub(crate) use upload::{input, part_target, parts, whole_target};

pub(crate) use crate::wire::job::{job, webhook};
pub(crate) use conveyor_wire::Time;
