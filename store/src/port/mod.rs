//! The four ports. Each method is an operation of the domain, not of a database.

mod blobs;
mod coordinator;
mod error;
mod jobs;
mod keys;
mod queue;
mod retention;
mod tasks;

pub use blobs::{BlobKey, Blobs, InvalidBlobKey};
pub use coordinator::Coordinator;
pub use error::{Error, Result};
pub use jobs::{ActiveRun, Added, JobStore, JobView, JobsQuery, RunView, Submission};
pub use keys::KeyStore;
pub use queue::{Delivery, Depth, Queue, Receipt};
pub use retention::Retention;
pub use tasks::{
    Claim, ClaimedTask, RunKey, Settle, SettleGroup, Settled, StatusFilter, TaskStore, TasksQuery,
};

/// The system of record.
pub trait Store: JobStore + TaskStore + KeyStore + Retention {}
impl<T: JobStore + TaskStore + KeyStore + Retention> Store for T {}
