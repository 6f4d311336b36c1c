//! The ports. Each method is an operation of the domain, not of a database.

mod blobs;
mod coordinator;
mod damage;
mod dead_letters;
mod direct;
mod error;
mod ingest;
mod jobs;
mod keys;
mod once;
mod over;
mod proof;
mod queue;
mod records;
mod retention;
mod tasks;
mod uploads;

pub use blobs::{BlobKey, Blobs, ByteStream, InvalidBlobKey, Listed, Stored};
pub use coordinator::Coordinator;
pub use damage::{Answers, Documents, Reads, read_each, readable};
pub use dead_letters::DeadLetterStore;
pub use direct::{DirectAccess, Found, Joined, SignedPut, Validity};
pub use error::{Error, Result};
pub use ingest::{Appended, Chunk, EventStore, Ingest, IngestStore};
pub use jobs::{
    ActiveRun, ChangeCursor, ChangedRuns, JobStore, JobView, JobsQuery, RunView, RunsQuery, StartRun,
    Submission, SubmittedList,
};
pub use keys::KeyStore;
pub use once::Once;
pub use proof::{DamagePage, Damaged, DamagedRow, DamagedRows, NamedObjects, ProofStore, Tally};
pub use queue::{Delivery, Depth, Emptiness, Queue, Receipt};
pub use records::{DueQuery, RecordStore, RecordsQuery};
pub use retention::{Chore, Mark, Removal, Retention, Tombstone};
pub use tasks::{
    Claim, ClaimedTask, RunKey, Settle, SettleGroup, Settled, StatusFilter, TaskStore, TasksQuery,
};
pub use uploads::{UploadStore, UploadsQuery};

#[cfg(feature = "conformance")]
pub use {
    blobs::OverBlobs, coordinator::OverCoordinator, dead_letters::OverDeadLetterStore,
    ingest::OverEventStore, ingest::OverIngestStore, jobs::OverJobStore, keys::OverKeyStore, over::Around,
    over::Over, proof::OverProofStore, queue::OverQueue, records::OverRecordStore, retention::OverRetention,
    tasks::OverTaskStore, uploads::OverUploadStore,
};

use conveyor_domain::shards::Sharding;
use std::time::Duration;

/// What a backend is like, where that decides what is best. Plain data, known when it is opened.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities {
    /// Over how many partitions the rows of a job's tasks are best spread.
    pub sharding: Sharding,
    pub settles_at_once: SettlesAtOnce,
    /// How much later than their time it may remove old rows by itself. Until then, there is no need to.
    pub removes_by_itself_within: Duration,
    /// The most that one receive returns.
    pub receive_max: usize,
    /// Messages that one receive brings for the price of one. A worker waits a little to receive as many.
    pub receive_batch: usize,
    /// What every part of an object but the last must have.
    pub part_min_bytes: u64,
}

/// How many groups of settles a worker writes at once. Fewer means larger groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettlesAtOnce {
    pub in_all: usize,
    pub of_a_run: usize,
}

/// Part of a list, which is read with a budget of rows to look at. It may be short, or empty, though more follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T, Id> {
    pub rows: Vec<T>,
    /// Where the scan stopped: the last row that it looked at, whether or not that is in the page. `None` at the end.
    pub next: Option<Id>,
}

/// Who reads. Where many share a process, callers' reads do not keep work waiting, nor work theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    Caller,
    Role,
}

/// The system of record.
pub trait Store:
    JobStore
    + TaskStore
    + KeyStore
    + Retention
    + UploadStore
    + IngestStore
    + EventStore
    + ProofStore
    + DeadLetterStore
    + RecordStore
{
}
impl<T> Store for T where
    T: JobStore
        + TaskStore
        + KeyStore
        + Retention
        + UploadStore
        + IngestStore
        + EventStore
        + ProofStore
        + DeadLetterStore
        + RecordStore
{
}
