//! The ports. Each method is an operation of the domain, not of a database.

mod blobs;
mod capabilities;
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
mod page;
mod proof;
mod queue;
mod records;
mod retention;
mod tasks;
mod uploads;

pub use blobs::{BlobKey, Blobs, ByteStream, InvalidBlobKey, Listed, Stored};
pub use capabilities::{Capabilities, SettlesAtOnce};
pub use coordinator::Coordinator;
pub use damage::{Answers, Reads, read_each, readable};
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
pub use page::Page;
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
