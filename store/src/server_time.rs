//! What time it is at the backend, measured by what its answers say (SPEC 6.26). A backend that says nothing is never asked.

use conveyor_domain::Timestamp;
use conveyor_domain::clock::Measured;
use std::sync::{Mutex, PoisonError};
use tokio::time::Instant;

#[derive(Debug)]
pub struct ServerTime {
    started: Instant,
    measured: Mutex<Option<Measured>>,
}

impl ServerTime {
    pub fn new() -> ServerTime {
        ServerTime { started: Instant::now(), measured: Mutex::default() }
    }

    /// An answer to a request was dated like this.
    pub fn learn(&self, sent: Instant, received: Instant, date: Timestamp) {
        let (sent, received) = (sent - self.started, received - self.started);
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        match measured.as_mut() {
            Some(measured) => measured.learn(sent, received, date),
            None => *measured = Some(Measured::new(sent, received, date)),
        }
    }

    /// `None` as long as no answer had a date.
    pub fn now(&self) -> Option<Timestamp> {
        let measured = *self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        measured.map(|measured| measured.at(self.started.elapsed()))
    }
}

impl Default for ServerTime {
    fn default() -> ServerTime {
        ServerTime::new()
    }
}
