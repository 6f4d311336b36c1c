//! Rows in one DynamoDB table (SPEC 5.3, 5.4).
//!
//! There is no transaction around what is read and what is written: every write is conditional on the versions that its
//! decision was made on, and is made again if they have moved.

mod api_keys;
mod backoff;
mod budgets;
mod change;
mod claim;
mod counters;
mod discovery;
mod events;
mod ingest;
mod insert;
mod item;
mod jobs;
mod keys;
mod latest;
mod letters;
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
mod settle;
mod starts;
mod submits;
mod tasks;
mod tombstones;
mod transact;
mod uploads;

pub use provision::provision;

use crate::Settings;
use aws_sdk_dynamodb::Client;
use conveyor_domain::Entropy;
use conveyor_domain::message::{QueueName, TaskRef};
use conveyor_domain::{RunId, Timestamp};
use conveyor_store::port::Queue;
use counters::Lanes;
use latest::Latest;
use places::Places;
use remembered::Remembered;
use std::sync::Arc;

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
    lanes: Lanes,
    task_shards_min: u32,
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
            lanes: Lanes::default(),
            task_shards_min: settings.task_shards_min,
        }
    }

    /// Sends refs of rows that are there. One that gets lost here is found by the sweeper: the rows are what counts.
    async fn send_refs(&self, run: RunId, refs: impl Iterator<Item = TaskRef>, now: Timestamp) {
        let bodies: Vec<String> = refs.map(|task| task.to_string()).collect();
        if bodies.is_empty() {
            return;
        }
        if let Err(error) = self.queues.send(QueueName::Run(run), bodies, now).await {
            tracing::warn!(%run, %error, "refs were not sent; a sweep will");
        }
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("name", &self.name).finish_non_exhaustive()
    }
}
