//! The API over the embedded backend, driven through its router: every route, every code of SPEC 11 that needs no worker,
//! and the shapes on the wire as golden files. Workers are played by the tests, through the same ports.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops there")]

mod audit;
mod content;
mod dead_letters;
mod deleted_runs;
mod deliveries;
mod direct;
mod errors;
mod events;
mod ingest;
mod inline_lists;
mod isolation;
mod jobs;
mod limits;
mod multipart;
mod operations;
mod operators;
mod reruns;
mod results;
mod retention;
mod staged_lists;
mod tasks;
mod uploads;
mod webhooks;
mod world;

/// The repairs, as the binary wires them.
#[path = "../../../conveyor/src/server/operations.rs"]
mod repairs;

/// Receivers of notifications, as the binary wires them.
#[path = "../../../conveyor/src/server/webhooks.rs"]
mod reached;
