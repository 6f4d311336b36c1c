//! What callers share in one process, so that none keeps the others out (SPEC 6.27): places for requests, streams and
//! uploads, room for bodies, and lookups of unknown keys.

pub(crate) mod bodies;
pub(crate) mod in_flight;
mod peer;
mod places;
mod turns;
mod unknown_keys;

pub(crate) use bodies::{Bodies, Room};
pub use peer::Peer;
pub(crate) use places::{Full, Place, Places};
pub(crate) use turns::Turns;
pub(crate) use unknown_keys::UnknownKeys;
