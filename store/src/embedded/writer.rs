//! One writer, group commit (SPEC 5.1): many callers share one durable commit, and each is answered only after it.

use super::codec;
use super::presence::Presence;
use crate::port::{Error, Result};
use conveyor_domain::limits;
use rusqlite::Connection;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

/// Runs inside the transaction, or is told why there is none; returns how to answer once the fate of the commit is known.
type Operation = Box<dyn FnOnce(Result<&Connection>) -> Done + Send>;
/// Called with `Ok` after the commit, or with why there was none.
type Answer = Box<dyn FnOnce(Result<()>) + Send>;

struct Done {
    answer: Answer,
    error: Option<Error>,
}

pub struct Writer {
    queue: Option<mpsc::Sender<Operation>>,
    thread: Option<JoinHandle<()>>,
    broken: watch::Receiver<Option<String>>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Writer")
    }
}

impl Writer {
    pub fn start(connection: Connection, presence: Arc<Presence>) -> std::io::Result<Writer> {
        let (queue, operations) = mpsc::channel(limits::WRITE_QUEUE_MAX);
        let (report, broken) = watch::channel(None);
        let thread = std::thread::Builder::new()
            .name("conveyor-writer".to_owned())
            .spawn(move || run(&connection, &presence, operations, &report))?;
        Ok(Writer { queue: Some(queue), thread: Some(thread), broken })
    }

    pub async fn write<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let stopped = || Error::Unavailable("the writer has stopped".to_owned());
        let queue = self.queue.as_ref().ok_or_else(stopped)?;
        let (reply, answer) = oneshot::channel();
        let boxed: Operation = Box::new(move |transaction| {
            let outcome = transaction.and_then(|connection| in_savepoint(connection, operation));
            let error = outcome.as_ref().err().cloned();
            // A caller that went away is not told; what it asked for happened all the same.
            let answer = move |fate: Result<()>| drop(reply.send(fate.and(outcome)));
            Done { answer: Box::new(answer), error }
        });
        queue.send(boxed).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }

    pub async fn broken(&self) -> String {
        let mut broken = self.broken.clone();
        match broken.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            // The thread is gone and left no reason: it panicked.
            Err(_) => "the writer thread ended unexpectedly".to_owned(),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic was already reported through `broken`.
            let _ = thread.join();
        }
    }
}

/// An operation that fails leaves nothing behind and does not disturb the others in its commit.
pub fn in_savepoint<T>(
    connection: &Connection,
    operation: impl FnOnce(&Connection) -> Result<T>,
) -> Result<T> {
    execute(connection, "SAVEPOINT operation")?;
    let outcome = operation(connection);
    if !connection.is_autocommit() {
        let undone = if outcome.is_err() { execute(connection, "ROLLBACK TO operation") } else { Ok(()) };
        let released = undone.and_then(|()| execute(connection, "RELEASE operation"));
        if let Err(e) = released {
            // Half an operation must not be committed with the others: the whole group goes.
            let _ = connection.execute_batch("ROLLBACK");
            return Err(e);
        }
    }
    outcome
}

fn execute(connection: &Connection, statement: &str) -> Result<()> {
    connection.prepare_cached(statement)?.execute([])?;
    Ok(())
}

fn run(
    connection: &Connection,
    presence: &Presence,
    mut operations: mpsc::Receiver<Operation>,
    report: &watch::Sender<Option<String>>,
) {
    while let Some(first) = operations.blocking_recv() {
        if let Err(reason) = commit_group(connection, presence, first, &mut operations) {
            tracing::error!(%reason, "the store can no longer be trusted");
            report.send_replace(Some(reason));
            // Whatever waits in the queue is answered "unavailable" by the closing channel.
            return;
        }
    }
}

/// Commits `first` and whatever else is waiting. `Err` if the disk can no longer be trusted.
fn commit_group(
    connection: &Connection,
    presence: &Presence,
    first: Operation,
    operations: &mut mpsc::Receiver<Operation>,
) -> std::result::Result<(), String> {
    let started = Instant::now();
    if let Err(e) = connection.execute_batch("BEGIN IMMEDIATE") {
        // Outside a transaction a savepoint would commit by itself, while its caller hears of a failure.
        let error = Error::from(e);
        (first(Err(error.clone())).answer)(Err(error));
        return Ok(());
    }
    let mut group: Vec<Answer> = Vec::new();
    let mut next = Some(first);
    let mut fate = Ok(());
    while let Some(operation) = next {
        let done = operation(Ok(connection));
        group.push(done.answer);
        // A full disk or an I/O error makes SQLite end the whole transaction: nobody in it has succeeded.
        if connection.is_autocommit() {
            fate = Err(done.error.unwrap_or_else(|| Error::Unavailable("transaction lost".to_owned())));
            break;
        }
        next = if group.len() < limits::COMMIT_OPERATIONS_MAX { operations.try_recv().ok() } else { None };
    }
    let mut broken = None;
    if fate.is_ok()
        && let Err(e) = connection.execute_batch("COMMIT")
    {
        if codec::leaves_disk_unknown(&e) {
            broken = Some(format!("the disk did not confirm a commit: {e}"));
        }
        fate = Err(e.into());
    }
    // After the commit: what is deleted from here on was durable when it was answered.
    if fate.is_ok()
        && let Err(reason) = presence.check()
    {
        fate = Err(Error::Unavailable(reason.clone()));
        broken = Some(reason);
    }
    if !connection.is_autocommit() {
        // After a failed commit the transaction can still be open; nothing of it may leak into the next one.
        let _ = connection.execute_batch("ROLLBACK");
    }
    if matches!(fate, Err(Error::Full(_))) {
        // The log may be what fills the disk, on one too small for it to reach its usual size: move it into the database.
        let _ = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    }
    metrics::counter!("conveyor_commits_total").increment(1);
    metrics::histogram!("conveyor_commit_operations").record(group.len() as f64);
    metrics::histogram!("conveyor_commit_seconds").record(started.elapsed().as_secs_f64());
    for answer in group {
        answer(fate.clone());
    }
    broken.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a deferred constraint refuses is refused by the commit itself, after every operation of the group went well.
    #[tokio::test]
    async fn nobody_is_answered_before_the_commit() {
        let connection = Connection::open_in_memory().unwrap();
        let tables = "PRAGMA foreign_keys = ON;
            CREATE TABLE parents (id INTEGER PRIMARY KEY);
            CREATE TABLE children (parent INTEGER REFERENCES parents DEFERRABLE INITIALLY DEFERRED);";
        connection.execute_batch(tables).unwrap();
        let writer = Writer::start(connection, Arc::default()).unwrap();
        let insert = async |sql: &'static str| writer.write(move |c| Ok(c.execute(sql, [])?)).await;
        let orphan = insert("INSERT INTO children VALUES (1)").await;
        assert!(orphan.is_err(), "answered as written, and it is not: {orphan:?}");
        assert_eq!(insert("INSERT INTO parents VALUES (1)").await, Ok(1));
        assert_eq!(insert("INSERT INTO children VALUES (1)").await, Ok(1), "the writer goes on");
    }
}
