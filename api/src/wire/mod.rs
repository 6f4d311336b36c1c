//! The shapes on the wire: what callers send, checked, and what they get.

pub(crate) mod bodies;
pub(crate) mod budget;
pub(crate) mod clock;
pub(crate) mod delivery;
pub(crate) mod dry_run;
pub(crate) mod event;
pub(crate) mod export;
pub(crate) mod health;
pub(crate) mod hmac;
pub(crate) mod ingest;
pub(crate) mod input;
pub(crate) mod job;
pub(crate) mod keys;
pub(crate) mod letter;
pub(crate) mod limits;
pub(crate) mod parts;
pub(crate) mod repair;
pub(crate) mod rerun;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod schedule_bodies;
pub(crate) mod spend;
pub(crate) mod submit;
pub(crate) mod task;
pub(crate) mod tasks;
pub(crate) mod webhook;

use conveyor_domain::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use std::borrow::Cow;

/// RFC 3339, where stores keep milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time(pub Timestamp);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl JsonSchema for Time {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}
