//! The real `loadtest proxy` over real sockets, before a small upstream: every fault, and what passes untouched.
#![expect(clippy::unwrap_used, reason = "a test whose proxy does not come up has failed, in helpers too")]

mod batches;
mod control;
mod network;
mod passing;
mod sdk;
mod servers;
mod support;
mod throttling;
