//! What the gateway keeps of every call when it is asked to: when it began and when it ended.

use crate::history::{Change, History, Span};
use serde::Serialize;
use std::collections::BTreeMap;
use tokio::time::Instant;

/// Two for each of a million calls: 32 MB.
const CHANGES_MAX: usize = 2_000_000;

#[derive(Debug)]
pub struct Record {
    /// Times count from here, and go on when the rest is forgotten.
    begin: Instant,
    changes: Vec<Change>,
    /// When the calls of each host began, in microseconds.
    arrivals_us: BTreeMap<String, Vec<u64>>,
    unrecorded: u64,
}

/// What `GET /_log` tells.
#[derive(Debug, Serialize)]
pub struct Log {
    pub now_us: u64,
    pub arrivals_us: Vec<u64>,
    /// The same by the host of the target.
    pub hosts: BTreeMap<String, Vec<u64>>,
    pub changes: Vec<Change>,
    /// Changes that there was no room for: then what is here is only the beginning.
    pub unrecorded: u64,
}

/// What `GET /_stats` tells of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    pub now_us: u64,
    pub from_us: u64,
    pub to_us: u64,
    /// Weighted with the time that each number held.
    pub average_in_flight: Option<f64>,
    pub recorded: usize,
    pub unrecorded: u64,
}

impl Record {
    pub fn start() -> Record {
        Record { begin: Instant::now(), changes: Vec::new(), arrivals_us: BTreeMap::new(), unrecorded: 0 }
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    pub fn note(&mut self, in_flight: u64) {
        if self.changes.len() < CHANGES_MAX {
            let at_us = self.now_us();
            self.changes.push(Change { at_us, in_flight });
        } else {
            self.unrecorded += 1;
        }
    }

    /// A call began; its change of what is in flight is noted by itself.
    pub fn note_arrival(&mut self, target: &str) {
        if self.changes.len() < CHANGES_MAX {
            let host = target.split('/').nth(2).unwrap_or_default();
            let at_us = self.now_us();
            match self.arrivals_us.get_mut(host) {
                Some(arrivals) => arrivals.push(at_us),
                None => drop(self.arrivals_us.insert(host.to_owned(), vec![at_us])),
            }
        }
    }

    /// Everything but the time.
    pub fn forget(self) -> Record {
        Record { begin: self.begin, ..Record::start() }
    }

    pub fn log(&self) -> Log {
        Log {
            now_us: self.now_us(),
            arrivals_us: History::new(self.changes.clone()).arrivals_us(),
            hosts: self.arrivals_us.clone(),
            changes: self.changes.clone(),
            unrecorded: self.unrecorded,
        }
    }

    /// Without a span, since the first call.
    pub fn summary(&self, from_us: Option<u64>, to_us: Option<u64>) -> Summary {
        let now_us = self.now_us();
        let first_us = self.changes.first().map_or(now_us, |change| change.at_us);
        let span = Span { from_us: from_us.unwrap_or(first_us), to_us: to_us.unwrap_or(now_us).min(now_us) };
        Summary {
            now_us,
            from_us: span.from_us,
            to_us: span.to_us,
            average_in_flight: History::new(self.changes.clone()).average(span),
            recorded: self.changes.len(),
            unrecorded: self.unrecorded,
        }
    }
}
