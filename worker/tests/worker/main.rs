//! Workers on a real store, and the gateways on real sockets.

#![expect(clippy::unwrap_used, reason = "in a test, an unwrap that fails is the report")]

mod dispatch;
mod gateway;
