//! The servers themselves: each is installed, started, spoken to, and ended with its owner.

#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected should panic")]

mod http;
mod installation;
mod lifetime;
mod presigned;
mod speech;
