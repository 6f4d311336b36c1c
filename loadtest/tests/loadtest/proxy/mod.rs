//! The real `loadtest proxy` over real sockets, before a small upstream: every fault, and what passes untouched.

mod batches;
mod control;
mod network;
mod passing;
mod sdk;
mod servers;
mod support;
mod throttling;
