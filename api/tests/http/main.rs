//! The API over the embedded backend, driven through its router: every route, every code of SPEC 11 that needs no worker,
//! and the shapes on the wire as golden files. Workers are played by the tests, through the same ports.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops there")]

mod audit;
mod canaries;
mod client;
mod content;
mod dead_letters;
mod deleted_runs;
mod deliveries;
mod described;
mod direct;
mod dry_run;
mod errors;
mod events;
mod exports;
mod idempotency;
mod ingest;
mod inline_lists;
mod isolation;
mod jobs;
mod keys;
mod limits;
mod multipart;
mod operations;
mod operators;
mod quotas;
mod request_rates;
mod reruns;
mod results;
mod retention;
mod schedules;
mod shares;
mod staged_lists;
mod tasks;
mod totals;
mod two_callers;
mod uncounted;
mod unread_lists;
mod uploads;
mod warnings;
mod webhooks;
mod world;

/// The repairs, as the binary wires them.
#[path = "../../../conveyor/src/server/operations.rs"]
mod repairs;

/// Receivers of notifications, as the binary wires them.
#[path = "../../../conveyor/src/server/webhooks.rs"]
mod reached;
