//! The AWS backend: rows in one DynamoDB table, messages in SQS, objects in S3 (SPEC 5.3, 5.4).
//!
//! Any number of processes share it. Nothing here is locked: every write is conditional on what was read before it, every
//! step can be broken off and repeated by anybody, and what a message says is never more than a hint.

mod client;
mod error;
mod machines;
pub mod objects;
mod provision;
pub mod queue;
pub mod table;

pub use client::{Clients, Settings, Timeouts};
pub use machines::{StepFunctions, TaskAnswer};
pub use provision::{Provisioned, provision, provision_with};

use conveyor_domain::Entropy;
use conveyor_domain::shards::Sharding;
use conveyor_store::Backend;
use conveyor_store::port::{Capabilities, SettlesAtOnce};
use objects::Objects;
use queue::Queues;
use std::sync::Arc;
use table::Table;

/// Opens the backend. Nothing is created: that is what [`provision`] is for.
pub async fn open(settings: &Settings, entropy: Arc<Entropy>) -> Backend {
    assemble(&Clients::connect(settings).await, settings, entropy)
}

/// The backend on clients that are there.
pub fn assemble(clients: &Clients, settings: &Settings, entropy: Arc<Entropy>) -> Backend {
    let queue = Arc::new(Queues::new(clients.sqs.clone(), settings));
    let blobs = Arc::new(Objects::new(clients.s3.clone(), settings));
    let table = Arc::new(Table::new(clients.dynamodb.clone(), settings, queue.clone(), entropy));
    Backend {
        store: table.clone(),
        changed: queue.changes(),
        queue,
        direct: Some(blobs.clone()),
        blobs,
        coordinator: table,
        capabilities: Capabilities {
            sharding: Sharding::Spread { min: settings.task_shards_min },
            // Every transaction pays for its counter row, and every group for an object: one at a time of a run, as large
            // as it gets.
            settles_at_once: SettlesAtOnce { in_all: 16, of_a_run: 1 },
            removes_by_itself_within: table::REMOVES_BY_ITSELF_WITHIN,
            receive_max: queue::BATCH_ENTRIES_MAX,
            receive_batch: queue::BATCH_ENTRIES_MAX,
            part_min_bytes: objects::PART_MIN_BYTES,
        },
    }
}
