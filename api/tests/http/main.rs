//! The API over the embedded backend, driven through its router: every route, every code of SPEC 11 that needs no worker,
//! and the shapes on the wire as golden files. Workers are played by the tests, through the same ports.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops there")]

mod content;
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
mod results;
mod staged_lists;
mod tasks;
mod uploads;
mod world;
