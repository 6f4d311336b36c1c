//! What callers send, checked.

pub(crate) mod bodies;
pub(crate) mod export;
pub(crate) mod input;
pub(crate) mod keys;
pub(crate) mod limits;
pub(crate) mod parts;
pub(crate) mod rerun;
pub(crate) mod schedule;
pub(crate) mod schedule_bodies;
pub(crate) mod submit;
pub(crate) mod tasks;
pub(crate) mod webhook;
