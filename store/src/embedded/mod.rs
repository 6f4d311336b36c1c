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
mod presence;
mod probe;
mod proof;
mod queue;
mod reader;
mod records;
mod restore;
mod retention;
mod runs;
mod scan;
mod spans;
mod streams;
mod tasks;
mod tombstones;
mod uploads;
mod writer;

pub use lock::LockError;
pub use open::OpenError;

use crate::Backend;
use crate::port::{Capabilities, Result, SettlesAtOnce};
use conveyor_domain::shards::Sharding;
use conveyor_domain::{Timestamp, limits};
use conveyor_turns::{Gate, Turn};
use files::Files;
use latest::Latest;
use lock::DirectoryLock;
use presence::Presence;
use probe::Probe;
use reader::{Lane, Readers};
use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
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
    /// Turns to write many rows.
    heavy: Gate,
    presence: Arc<Presence>,
    _lock: DirectoryLock,
}

impl Embedded {
    /// Takes the data directory, creating it if need be, and repairs what a crash left.
    pub fn open(dir: &Path, now: Timestamp) -> std::result::Result<Arc<Embedded>, OpenError> {
        open::open(dir, now).map(Arc::new)
    }

    pub fn backend(self: &Arc<Self>) -> Backend {
        let most = limits::SETTLE_GROUPS_INFLIGHT;
        Backend {
            store: self.clone(),
            queue: self.clone(),
            blobs: self.clone(),
            coordinator: self.clone(),
            direct: None,
            capabilities: Capabilities {
                sharding: Sharding::Whole,
                settles_at_once: SettlesAtOnce { in_all: most, of_a_run: most },
                removes_by_itself_within: Duration::ZERO,
                receive_max: queue::RECEIVE_MAX,
                receive_batch: 1,
                part_min_bytes: 1,
            },
            changed: self.changes.subscribe(),
        }
    }

    /// Resolves, with the reason, when the store can no longer be trusted and the process has to end.
    pub async fn broken(&self) -> String {
        tokio::select! {
            reason = self.writer.broken() => reason,
            reason = self.lost() => reason,
        }
    }

    /// Resolves when the data directory is not the one that was opened any more. The writer finds out by itself; this is for
    /// a process that has nothing to write.
    async fn lost(&self) -> String {
        let mut looks = tokio::time::interval(limits::DATA_DIRECTORY_LOOK_EVERY);
        loop {
            looks.tick().await;
            let presence = self.presence.clone();
            if let Ok(Err(reason)) = tokio::task::spawn_blocking(move || presence.check()).await {
                return reason;
            }
        }
    }

    async fn write<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.writer.write(operation).await
    }

    /// The turn is over when the operation has run, not when nobody waits for it any more: what was queued stays queued.
    async fn write_in_turn<T: Send + 'static>(
        &self,
        turn: Option<Turn>,
        operation: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.write(move |connection| {
            let outcome = operation(connection);
            drop(turn);
            outcome
        })
        .await
    }

    async fn read<T: Send + 'static>(
        &self,
        lane: Lane,
        operation: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.readers.read(lane, operation).await
    }

    /// Tells this process's workers that something may be receivable.
    fn announce(&self) {
        self.changes.send_modify(|n| *n = n.wrapping_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::reader::tests::occupy;
    use super::*;
    use crate::conformance::{World, success};
    use crate::port::{
        ChangeCursor, Depth, IngestStore, JobStore, JobsQuery, KeyStore, Queue, Reader, RecordStore, Settled,
        StatusFilter, TaskStore, TasksQuery,
    };
    use conveyor_domain::access::api_key::operator_key;
    use conveyor_domain::limits::LOOK_ROWS_MAX;
    use conveyor_domain::{JobId, KeyHash, QueueName};
    use futures::FutureExt;
    use std::sync::mpsc;
    use tokio::sync::oneshot;
    use tokio::time::timeout;

    /// What was queued stays queued if its caller hangs up, and so does its turn: hanging up is no way to have more of them.
    #[tokio::test]
    async fn heavy_writes_that_nobody_waits_for_keep_their_turns() {
        let dir = tempfile::TempDir::new().unwrap();
        let store = Embedded::open(dir.path(), Timestamp(1)).unwrap();
        let world = World::new(store.backend());
        let (begun, begins) = oneshot::channel();
        let (hold, held_until) = mpsc::channel::<()>();
        let writer = store.clone();
        let held = tokio::spawn(async move {
            let wait = move |_: &Connection| {
                let _ = begun.send(());
                let _ = held_until.recv();
                Ok(())
            };
            writer.write(wait).await
        });
        begins.await.unwrap();
        let rows = u32::try_from(limits::HEAVY_WRITE_ROWS).unwrap();
        let many = || world.submission(false, rows);
        let large = || {
            let mut submission = world.submission(false, 1);
            submission.tasks[0].1.url = "x".repeat(limits::HEAVY_WRITE_BYTES);
            submission
        };
        let queued: Vec<_> = (0..10).flat_map(|_| [many(), large()]).collect();
        let jobs: Vec<_> = queued.iter().map(|submission| submission.job.id).collect();
        for submission in queued {
            assert!(store.submit(submission).now_or_never().is_none(), "the writer is held");
        }
        drop(hold);
        held.await.unwrap().unwrap();
        // Behind all that were queued.
        store.write(|_| Ok(())).await.unwrap();
        let mut written = 0;
        for job in jobs {
            written += usize::from(store.job(None, job).await.unwrap().is_some());
        }
        assert_eq!(written, limits::HEAVY_WRITES_MAX / 2);
    }

    /// However long lists and proofs take, a caller is known, and its tasks are claimed, settled and found.
    #[tokio::test]
    async fn lists_keep_neither_authentication_nor_work_waiting() {
        let dir = tempfile::TempDir::new().unwrap();
        let store = Embedded::open(dir.path(), Timestamp(1)).unwrap();
        let world = World::new(store.backend());
        let key = world.submit(false, 3).await;
        let hash = KeyHash::of("a key");
        store.put_key(hash, world.caller, world.now()).await.unwrap();
        let held = [occupy(&store.readers, Lane::Lists).await, occupy(&store.readers, Lane::Proofs).await];
        let query = move |filter| TasksQuery { key, filter, after: None, limit: 9, max_bytes: usize::MAX };
        let (filter, backend) = (StatusFilter::Failed, store.backend());
        let lists: Vec<_> = (0..50)
            .map(|_| {
                let store = store.clone();
                tokio::spawn(
                    async move { store.scan_tasks(query(filter), LOOK_ROWS_MAX, Reader::Caller).await },
                )
            })
            .collect();
        let caller = world.caller;
        let jobs = JobsQuery { caller, status: None, scheduled: None, before: None, limit: 9, look: 9 };
        let jobs = tokio::spawn({
            let store = store.clone();
            async move { store.jobs(jobs).await }
        });
        let depth = tokio::spawn({
            let (store, now) = (store.clone(), world.now());
            async move { store.depth(QueueName::Run(key.run), Reader::Caller, now).await }
        });

        let others = async {
            assert_eq!(store.caller_of(hash).await, Ok(Some(world.caller)));
            assert!(store.job(Some(world.caller), key.job).await.unwrap().is_some());
            assert_eq!(
                store
                    .changed_runs(Some(ChangeCursor(Timestamp(0))), Timestamp(1))
                    .await
                    .unwrap()
                    .active
                    .len(),
                1
            );
            let claimed = world.claimed(key, 0).await;
            assert_eq!(world.settle(key, &claimed, success()).await, Settled::Applied);
            assert_eq!(
                backend.store.tasks(query(StatusFilter::Unfinished)).await.unwrap().len(),
                2,
                "as a sweeper looks"
            );
        };
        timeout(Duration::from_secs(60), others).await.expect("it waits for lists");
        assert!(
            lists.iter().all(|list| !list.is_finished()) && !jobs.is_finished() && !depth.is_finished(),
            "they do not wait"
        );
        drop(held);
        for list in lists {
            assert!(list.await.unwrap().unwrap().rows.is_empty());
        }
        assert_eq!(jobs.await.unwrap().unwrap().rows.len(), 1);
        assert_eq!(depth.await.unwrap().unwrap(), Depth { visible: 3, ..Depth::default() });
    }

    /// However much callers that are known have to look up, others become known.
    #[tokio::test]
    async fn authentication_does_not_wait_for_what_known_callers_read() {
        let dir = tempfile::TempDir::new().unwrap();
        let store = Embedded::open(dir.path(), Timestamp(1)).unwrap();
        let world = World::new(store.backend());
        let hash = KeyHash::of("a key");
        store.put_key(hash, world.caller, world.now()).await.unwrap();
        let _held = occupy(&store.readers, Lane::Points).await;
        let job = store.job(Some(world.caller), JobId::from_bytes([1; 16]));
        tokio::pin!(job);
        assert!(job.as_mut().now_or_never().is_none(), "every reader of points is taken");
        let known = async {
            assert_eq!(store.caller_of(hash).await, Ok(Some(world.caller)));
            assert_eq!(store.record(&operator_key(hash)).await, Ok(None));
        };
        timeout(Duration::from_secs(60), known).await.expect("it waits for points");
    }

    #[tokio::test]
    async fn a_caller_that_looks_at_an_ingest_or_a_queue_does_not_wait_for_work() {
        let dir = tempfile::TempDir::new().unwrap();
        let store = Embedded::open(dir.path(), Timestamp(1)).unwrap();
        let world = World::new(store.backend());
        let key = world.submit(false, 1).await;
        let _held = occupy(&store.readers, Lane::Work).await;
        let queue = QueueName::Run(key.run);
        let looked = async {
            (store.ingest(key, Reader::Caller).await, store.depth(queue, Reader::Caller, world.now()).await)
        };
        let (ingest, depth) =
            timeout(Duration::from_secs(60), looked).await.expect("a caller waits for work");
        assert_eq!(ingest.unwrap().map(|ingest| ingest.log), None);
        assert_eq!(depth.unwrap(), Depth { visible: 1, ..Depth::default() });
    }
}
