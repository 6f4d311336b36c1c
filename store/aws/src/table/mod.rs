//! Rows in one DynamoDB table (SPEC 5.3, 5.4).
//!
//! There is no transaction around what is read and what is written: every write is conditional on the versions that its
//! decision was made on, and is made again if they have moved.

mod api_keys;
mod backoff;
mod budgets;
mod change;
mod circuits;
mod claim;
mod counters;
mod discovery;
mod events;
mod holes;
mod ingest;
mod insert;
mod item;
mod jobs;
mod keys;
mod latest;
mod letters;
mod listing;
mod outcome;
mod pages;
mod places;
mod proof;
mod provision;
mod read;
mod records;
mod remembered;
mod replayed;
mod retention;
mod rows;
mod sending;
mod settle;
mod starts;
mod submits;
mod tasks;
mod tombstones;
mod transact;
mod unsent;
mod uploads;

pub use provision::{check, check_name, provision};

use crate::Settings;
use crate::error::{missing, unavailable};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use circuits::Circuits;
use conveyor_domain::{Entropy, JobId, RunId};
use conveyor_store::Error;
use conveyor_store::port::Queue;
use counters::Lanes;
use discovery::Unread;
use latest::Latest;
use places::Places;
use remembered::Remembered;
pub use retention::REMOVES_BY_ITSELF_WITHIN;
use sending::Sending;
use std::sync::Arc;
use std::time::Duration;

pub struct Table {
    dynamodb: Client,
    name: String,
    /// Refs follow the rows that they are about.
    queues: Arc<dyn Queue>,
    entropy: Arc<Entropy>,
    latest: Latest,
    places: Places,
    /// The sort key under which a run that is not running was last found.
    rested: Remembered<RunId, String>,
    /// The same of one that was old and had not ended.
    unended: Remembered<RunId, String>,
    unread: Unread,
    /// Jobs that a read found to be damaged.
    damaged: Remembered<JobId, ()>,
    lanes: Lanes,
    circuits: Circuits,
    sending: Sending,
    refs_sent_within: Duration,
}

impl Table {
    pub fn new(
        dynamodb: Client,
        settings: &Settings,
        queues: Arc<dyn Queue>,
        entropy: Arc<Entropy>,
    ) -> Table {
        Table {
            dynamodb,
            name: settings.table.clone(),
            queues,
            entropy,
            latest: Latest::default(),
            places: Places::default(),
            rested: Remembered::default(),
            unended: Remembered::default(),
            unread: Unread::default(),
            damaged: Remembered::default(),
            lanes: Lanes::default(),
            circuits: Circuits::default(),
            sending: Sending::default(),
            refs_sent_within: settings.refs_sent_within,
        }
    }

    /// A call that failed. That the table is not there is an error of its own.
    fn unavailable<E, R>(&self, call: &'static str, error: &SdkError<E, R>) -> Error
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
        R: std::fmt::Debug + 'static,
    {
        match error.as_service_error().and_then(ProvideErrorMetadata::code) {
            Some("ResourceNotFoundException") => missing("table", &self.name),
            _ => unavailable(call, error),
        }
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("name", &self.name).finish_non_exhaustive()
    }
}
