//! What workers start, when, and whose turn it is (SPEC 6.7, 8), seen from the gateway.

mod breaker;
mod fairness;
mod limits;
mod parked;
mod sites;
mod unused;
mod world;
