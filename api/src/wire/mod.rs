//! What callers send, checked.

pub(crate) mod input;
pub(crate) mod job;
pub(crate) mod keys;
pub(crate) mod limits;
pub(crate) mod parts;
mod read;
pub(crate) mod rerun;
pub(crate) mod schedule;
pub(crate) mod submit;
pub(crate) mod tasks;

pub(crate) use read::{not_json, read, read_field, read_rest, read_some};
