//! The four ports. Each method is an operation of the domain, not of a database.

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
mod page;
mod proof;
mod queue;
mod records;
mod retention;
mod tasks;
mod uploads;

pub use blobs::{BlobKey, Blobs, ByteStream, InvalidBlobKey, Listed, Stored};
pub use coordinator::Coordinator;
pub use damage::{Answers, Reads, read_each, readable};
pub use dead_letters::DeadLetterStore;
pub use direct::{DirectAccess, Found, Joined, SignedPut, Validity};
pub use error::{Error, Result};
pub use ingest::{Acceptance, Appended, Chunk, EventStore, Ingest, IngestStore};
pub use jobs::{
    ActiveRun, Added, ChangedRuns, JobStore, JobView, JobsQuery, RunView, RunsQuery, StartRun, Submission,
    SubmittedList,
};
pub use keys::KeyStore;
pub use once::Once;
pub use page::Page;
pub use proof::{DamagePage, DamagedRow, DamagedRows, NamedObjects, ProofStore, Tally};
pub use queue::{Delivery, Depth, Emptiness, Queue, Receipt, ShownDepth};
pub use records::{DueQuery, RecordStore, RecordsQuery};
pub use retention::{Retention, Tombstone};
pub(crate) use tasks::dense;
pub use tasks::{
    Claim, ClaimedTask, RunKey, Settle, SettleGroup, Settled, SettlesAtOnce, StatusFilter, TaskStore,
    TasksQuery,
};

pub use uploads::{UploadStore, UploadsQuery};

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
