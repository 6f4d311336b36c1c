//! The embedded backend: one SQLite database and a folder of files, owned by one process (SPEC 5.1).
//!
//! Every write goes through [`writer`], which commits many callers' operations together; reads go to a few connections
//! of their own. Queues live in the same database, so rows and the messages about them are one transaction.

mod budgets;
mod codec;
mod dead_letters;
mod events;
mod files;
mod ingest;
mod jobs;
mod keys;
mod latest;
mod listing;
mod lock;
mod open;
mod probe;
mod proof;
mod queue;
mod reader;
mod records;
mod restore;
mod retention;
mod runs;
mod spans;
mod streams;
mod tasks;
mod tombstones;
mod uploads;
mod writer;

pub use lock::LockError;
pub use open::OpenError;

use crate::Backend;
use crate::port::Result;
use conveyor_domain::Timestamp;
use files::Files;
use latest::Latest;
use lock::DirectoryLock;
use probe::Probe;
use reader::Readers;
use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::watch;
use writer::Writer;

/// An open data directory. Dropping the last handle finishes what was queued and gives the directory back.
#[derive(Debug)]
pub struct Embedded {
    // Fields drop in this order: the writer finishes, then the readers close, then the lock goes.
    writer: Writer,
    readers: Readers,
    files: Files,
    probe: Probe,
    latest: Latest,
    changes: watch::Sender<u64>,
    _lock: DirectoryLock,
}

impl Embedded {
    /// Takes the data directory, creating it if need be, and repairs what a crash left.
    pub fn open(dir: &Path, now: Timestamp) -> std::result::Result<Arc<Embedded>, OpenError> {
        open::open(dir, now).map(Arc::new)
    }

    pub fn backend(self: &Arc<Self>) -> Backend {
        Backend { store: self.clone(), queue: self.clone(), blobs: self.clone(), coordinator: self.clone() }
    }

    /// Resolves, with the reason, when the store can no longer be trusted and the process has to end.
    pub async fn broken(&self) -> String {
        self.writer.broken().await
    }

    async fn write<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.writer.write(operation).await
    }

    async fn read<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.readers.read(operation).await
    }

    /// Tells this process's workers that something may be receivable.
    fn announce(&self) {
        self.changes.send_modify(|n| *n = n.wrapping_add(1));
    }
}
