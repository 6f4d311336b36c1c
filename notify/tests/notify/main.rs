//! The deliverer over the embedded backend, against real receivers on loopback.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops there")]

mod crashes;
mod machines;
mod receiver;
mod receivers;
mod turns;
mod world;
