//! Process tests: the real binary, real sockets, signals and kill -9. One binary; the module says what a test runs on.
//!
//! - `both`: servers of [`support::server`]. One process on the embedded store; with `CONVEYOR_TEST_CLUSTER` set, two
//!   processes of every role on AWS-compatible servers.
//! - `embedded`: one process on the embedded store, or no server at all.
//! - `aws`: roles on AWS-compatible servers, started one by one.
//! - `takeover`: data that an earlier version stored, on the backend that `takeover::embedded` and `takeover::aws` name;
//!   the other modules there need no server.
//! - `files`: what `deploy/` says, held against the program.

#![expect(clippy::unwrap_used, reason = "in a test, an unwrap that fails is the report")]

mod aws;
mod both;
mod embedded;
mod files;
mod support;
mod takeover;
