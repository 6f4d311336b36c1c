//! What callers share in one process, so that none keeps the others out (SPEC 6.27): places for requests, streams and
//! uploads, room for bodies and answers, and lookups of unknown keys.

mod answers;
pub(crate) mod bodies;
pub(crate) mod in_flight;
mod peer;
mod places;
mod turns;
mod unknown_keys;

pub(crate) use answers::{AnswerRoom, Answers};
pub(crate) use bodies::{Bodies, Room};
pub use peer::Peer;
pub(crate) use places::{Full, Place, Places};
pub(crate) use turns::Turns;
pub(crate) use unknown_keys::UnknownKeys;

use conveyor_domain::{RequestRate, limits};
use std::time::Duration;

/// What all callers share, and what one of them may have of it, in one process (SPEC 6.27).
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    pub requests_of_caller_max: usize,
    pub event_streams_max: usize,
    pub event_streams_of_caller_max: usize,
    pub uploads_max: usize,
    pub uploads_of_caller_max: usize,
    pub bodies_max_bytes: usize,
    pub bodies_of_caller_max_bytes: usize,
    pub answers_max_bytes: usize,
    pub body: BodyDeadlines,
    /// Of an address; `None` is no limit.
    pub unknown_keys: Option<RequestRate>,
}

/// How long a request body may take.
#[derive(Clone, Copy, Debug)]
pub struct BodyDeadlines {
    /// In all if it is held in memory, without a byte if it is streamed.
    pub timeout: Duration,
    /// Before its rate matters.
    pub grace: Duration,
    pub rate_min_bytes: u64,
}

impl Default for Shares {
    fn default() -> Shares {
        Shares {
            requests_of_caller_max: limits::REQUESTS_OF_CALLER_MAX,
            event_streams_max: limits::EVENT_STREAMS_MAX,
            event_streams_of_caller_max: limits::EVENT_STREAMS_OF_CALLER_MAX,
            uploads_max: limits::UPLOADS_INFLIGHT_MAX,
            uploads_of_caller_max: limits::UPLOADS_OF_CALLER_MAX,
            bodies_max_bytes: limits::BODIES_MAX_BYTES,
            bodies_of_caller_max_bytes: limits::BODIES_OF_CALLER_MAX_BYTES,
            answers_max_bytes: limits::ANSWERS_MAX_BYTES,
            body: BodyDeadlines::default(),
            unknown_keys: RequestRate::new(limits::UNKNOWN_KEYS_PER_SECOND, limits::UNKNOWN_KEYS_BURST),
        }
    }
}

impl Default for BodyDeadlines {
    fn default() -> BodyDeadlines {
        BodyDeadlines {
            timeout: limits::BODY_TIMEOUT,
            grace: limits::BODY_GRACE,
            rate_min_bytes: limits::BODY_RATE_MIN_BYTES,
        }
    }
}
