//! What workers start, when, and whose turn it is (SPEC 6.7, 8), seen from the gateway.
#![expect(clippy::unwrap_used, reason = "in a test, an unwrap that fails is the report")]

mod breaker;
mod fairness;
mod limits;
mod sites;
mod unused;
mod world;
