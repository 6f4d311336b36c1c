//! What callers share in one process, so that none keeps the others out (SPEC 6.27): places for requests, streams and
//! uploads, room for bodies and answers, and lookups of unknown keys.

mod answers;
pub(crate) mod bodies;
mod config;
pub(crate) mod in_flight;
mod peer;
mod places;
mod turns;
mod unknown_keys;

pub(crate) use answers::{AnswerRoom, Answers};
pub(crate) use bodies::{Bodies, Room};
pub use config::{BodyDeadlines, Shares};
pub use peer::Peer;
pub(crate) use places::{Full, Place, Places};
pub(crate) use turns::Turns;
pub(crate) use unknown_keys::UnknownKeys;
