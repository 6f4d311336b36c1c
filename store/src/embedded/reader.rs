//! Reads, on connections of their own: a long page does not hold up a commit, nor a commit a page.
//!
//! Bulkheads: every read belongs to a [`Lane`] with readers of its own, so lists that fill theirs keep neither
//! authentication nor workers waiting (SPEC 5.1).

use super::open;
use crate::port::{Error, Reader, Result};
use rusqlite::Connection;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::Semaphore;

/// Instructions of SQLite's virtual machine between two looks at whether the caller is still there: well below 1 ms.
const LOOK_EVERY_OPS: i32 = 10_000;

/// Whom a read may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Whose key it is. Nothing of a caller that is known waits here.
    Keys,
    /// Few rows, found by their keys: what a request is about.
    Points,
    /// What workers, ingesters and the sweeper need to go on.
    Work,
    /// Pages of what callers list.
    Lists,
    /// Whole runs, in one snapshot each.
    Proofs,
}

impl From<Reader> for Lane {
    fn from(reader: Reader) -> Lane {
        match reader {
            Reader::Caller => Lane::Lists,
            Reader::Role => Lane::Work,
        }
    }
}

impl Lane {
    pub const ALL: [Lane; 5] = [Lane::Keys, Lane::Points, Lane::Work, Lane::Lists, Lane::Proofs];

    /// How many read at once.
    pub fn readers(self) -> usize {
        match self {
            Lane::Keys | Lane::Points | Lane::Proofs => 2,
            Lane::Work | Lane::Lists => 3,
        }
    }
}

#[derive(Clone)]
pub struct Readers {
    database: PathBuf,
    idle: Arc<Mutex<Vec<Connection>>>,
    turns: [Arc<Semaphore>; Lane::ALL.len()],
}

impl std::fmt::Debug for Readers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Readers")
    }
}

impl Readers {
    pub fn new(database: PathBuf) -> Readers {
        let turns = Lane::ALL.map(|lane| Arc::new(Semaphore::new(lane.readers())));
        Readers { database, idle: Arc::default(), turns }
    }

    /// Runs `operation` in one snapshot of the database. Dropping the future cancels it: a read that waits does not begin,
    /// and one that is under way ends within [`LOOK_EVERY_OPS`].
    pub async fn read<T: Send + 'static>(
        &self,
        lane: Lane,
        operation: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let turn = self.turns[lane as usize].clone().acquire_owned().await.map_err(|_| given_up())?;
        let this = self.clone();
        let waiting = Arc::new(());
        let waits = Arc::downgrade(&waiting);
        let work = move || {
            let outcome = this.run(waits, operation);
            drop(turn);
            outcome
        };
        let outcome = tokio::task::spawn_blocking(work).await.map_err(|_| given_up());
        drop(waiting);
        outcome?
    }

    fn run<T>(&self, waits: Weak<()>, operation: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let is_gone = move || waits.strong_count() == 0;
        if is_gone() {
            return Err(given_up());
        }
        let mut connection = self.take()?;
        connection.progress_handler(LOOK_EVERY_OPS, Some(is_gone))?;
        let outcome = in_snapshot(&connection, operation);
        connection.progress_handler(0, None::<fn() -> bool>)?;
        if connection.is_autocommit() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
        outcome
    }

    fn take(&self) -> Result<Connection> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match idle {
            Some(connection) => Ok(connection),
            None => Ok(open::connect_reader(&self.database)?),
        }
    }
}

fn given_up() -> Error {
    Error::Unavailable("the read was given up".to_owned())
}

fn in_snapshot<T>(connection: &Connection, operation: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
    let snapshot = connection.unchecked_transaction()?;
    let outcome = operation(connection);
    snapshot.finish()?;
    outcome
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use rusqlite::ErrorCode;
    use std::sync::mpsc;
    use std::time::Duration;
    use tempfile::TempDir;
    use tokio::sync::oneshot;
    use tokio::time::timeout;

    /// Something to scan for long, though not for ever: a test that fails has to end.
    const LONG: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000000)
        SELECT count(*) FROM n";
    const PATIENCE: Duration = Duration::from_secs(60);

    fn readers() -> (TempDir, Readers) {
        let dir = TempDir::new().unwrap();
        let database = dir.path().join("conveyor.db");
        Connection::open(&database).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
        (dir, Readers::new(database))
    }

    /// Takes every reader of a lane until the sender is dropped.
    pub async fn occupy(readers: &Readers, lane: Lane) -> Vec<mpsc::Sender<()>> {
        let mut held = Vec::new();
        for _ in 0..lane.readers() {
            let (hold, held_until) = mpsc::channel::<()>();
            let (begun, begins) = oneshot::channel();
            let readers = readers.clone();
            tokio::spawn(async move {
                let wait = move |_: &Connection| {
                    let _ = begun.send(());
                    let _ = held_until.recv();
                    Ok(())
                };
                readers.read(lane, wait).await
            });
            timeout(PATIENCE, begins).await.expect("a reader is free").unwrap();
            held.push(hold);
        }
        held
    }

    #[tokio::test]
    async fn a_full_lane_keeps_no_other_waiting() {
        let (_dir, readers) = readers();
        for full in Lane::ALL {
            let held = occupy(&readers, full).await;
            for other in Lane::ALL.into_iter().filter(|lane| *lane != full) {
                let read = timeout(PATIENCE, readers.read(other, |_| Ok(1))).await;
                assert_eq!(read, Ok(Ok(1)), "{other:?} behind {full:?}");
            }
            drop(held);
        }
    }

    #[tokio::test]
    async fn a_read_that_nobody_waits_for_does_not_begin() {
        let (_dir, readers) = readers();
        let held = occupy(&readers, Lane::Lists).await;
        let (begun, mut begins) = oneshot::channel();
        let queued = {
            let readers = readers.clone();
            let begin = move |_: &Connection| begun.send(()).map_err(|()| given_up());
            tokio::spawn(async move { readers.read(Lane::Lists, begin).await })
        };
        queued.abort();
        assert!(queued.await.unwrap_err().is_cancelled());
        drop(held);
        assert_eq!(readers.read(Lane::Lists, |_| Ok(1)).await, Ok(1));
        assert!(begins.try_recv().is_err(), "it began");
    }

    #[tokio::test]
    async fn a_scan_ends_when_nobody_waits_for_it() {
        let (_dir, readers) = readers();
        for _ in 0..2 * Lane::Lists.readers() {
            let (begun, begins) = oneshot::channel();
            let (ended, end) = oneshot::channel();
            let count = move |connection: &Connection| {
                let _ = begun.send(());
                let counted = connection.query_row(LONG, [], |row| row.get::<_, i64>(0));
                let _ = ended.send(counted.map_err(|e| e.sqlite_error_code()));
                Ok(())
            };
            let readers = readers.clone();
            let scan = tokio::spawn(async move { readers.read(Lane::Lists, count).await });
            begins.await.unwrap();
            scan.abort();
            assert_eq!(end.await.unwrap(), Err(Some(ErrorCode::OperationInterrupted)));
        }
        assert_eq!(readers.read(Lane::Lists, |_| Ok(1)).await, Ok(1), "its readers are free again");
    }
}
