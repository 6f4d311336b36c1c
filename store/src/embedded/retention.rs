//! Removing what was deleted or is past its time, a bounded number of rows a step (SPEC 6.6, 6.16).

use super::codec::task_key;
use super::reader::Lane;
use super::{Embedded, budgets, records, runs, tombstones, uploads};
use crate::port::{Chore, Mark, Removal, Result, Retention, RunKey, Tombstone};
use async_trait::async_trait;
use conveyor_domain::repair::Subject;
use conveyor_domain::{JobId, RunId, Storage, Timestamp, UploadId};
use rusqlite::{Connection, Row, params};

/// Not live: deleted, or gone already.
const IS_DELETED: &str = "NOT EXISTS (SELECT 1 FROM jobs WHERE job_id = ?1 AND status <> 'deleted')";

/// Removes up to `limit` rows of one run, all but the run row itself.
fn remove_run(connection: &Connection, run_key: i64, limit: u32) -> Result<u32> {
    let (first, end) = (task_key(run_key, 0), task_key(run_key + 1, 0));
    let steps = [
        "DELETE FROM attempts WHERE (task_key, attempt) IN
            (SELECT task_key, attempt FROM attempts WHERE task_key >= ?1 AND task_key < ?2 LIMIT ?3)",
        "DELETE FROM tasks WHERE task_key IN
            (SELECT task_key FROM tasks WHERE task_key >= ?1 AND task_key < ?2 LIMIT ?3)",
    ];
    for step in steps {
        let removed = connection.prepare_cached(step)?.execute(params![first, end, limit])?;
        if removed > 0 {
            return Ok(u32::try_from(removed).unwrap_or(limit));
        }
    }
    Ok(0)
}

/// Removes up to `limit` rows and events of a job, all but the job and its runs.
fn remove_rows(connection: &Connection, job: JobId, limit: u32) -> Result<u32> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT run_key FROM runs WHERE job_id = ?1 AND {IS_DELETED}"))?;
    let keys = statement.query_map([job.to_bytes()], |row| row.get(0))?;
    for run_key in keys.collect::<rusqlite::Result<Vec<i64>>>()? {
        let removed = remove_run(connection, run_key, limit)?;
        if removed > 0 {
            return Ok(removed);
        }
    }
    let removed = connection
        .prepare_cached(&format!(
            "DELETE FROM events WHERE (job_id, number) IN
                (SELECT job_id, number FROM events WHERE job_id = ?1 AND {IS_DELETED} LIMIT ?2)"
        ))?
        .execute(params![job.to_bytes(), limit])?;
    Ok(u32::try_from(removed).unwrap_or(limit))
}

/// The last step, all at once: a job without its run could not be read.
fn forget(connection: &Connection, job: JobId, now: Timestamp) -> Result<bool> {
    // A run whose queue is still there waits for the other sweep, which finds queues by their runs.
    let mut may_go = connection.prepare_cached(
        "SELECT 1 FROM jobs WHERE job_id = ?1 AND status = 'deleted'
         AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.job_id = ?1 AND queue_removed = 0)",
    )?;
    if !may_go.exists([job.to_bytes()])? {
        return Ok(false);
    }
    tombstones::put(connection, job, now)?;
    uploads::release(connection, job)?;
    for statement in [
        "DELETE FROM events WHERE job_id = ?1",
        "DELETE FROM counters WHERE run_key IN (SELECT run_key FROM runs WHERE job_id = ?1)",
        "DELETE FROM runs WHERE job_id = ?1",
        "DELETE FROM jobs WHERE job_id = ?1",
    ] {
        connection.prepare_cached(statement)?.execute([job.to_bytes()])?;
    }
    budgets::forget(connection, job)?;
    Ok(true)
}

/// Marks a run whose rows are gone. One that is not in the state for it, by now or ever, stays as it is.
fn rows_gone(connection: &Connection, key: RunKey, storage: Storage) -> Result<()> {
    let Some(stored) = runs::find(connection, key)? else { return Ok(()) };
    if !storage.may_be_of(stored.run.status) {
        return Ok(());
    }
    connection
        .prepare_cached("UPDATE runs SET storage = ?2 WHERE run_key = ?1")?
        .execute(params![stored.key, storage.as_str()])?;
    if storage == Storage::Removed {
        connection.prepare_cached("DELETE FROM counters WHERE run_key = ?1")?.execute([stored.key])?;
    }
    let mut kept = connection.prepare_cached("SELECT 1 FROM runs WHERE job_id = ?1 AND storage = 'kept'")?;
    if kept.exists([key.job.to_bytes()])? { Ok(()) } else { uploads::release(connection, key.job) }
}

fn queue_gone(connection: &Connection, key: RunKey) -> Result<()> {
    connection
        .prepare_cached("UPDATE runs SET queue_removed = 1 WHERE run_id = ?1")?
        .execute([key.run.to_bytes()])?;
    Ok(())
}

fn remove_ended(connection: &Connection, key: RunKey, limit: u32) -> Result<u32> {
    match runs::find(connection, key)?.filter(|stored| stored.run.status.is_terminal()) {
        Some(stored) => remove_run(connection, stored.key, limit),
        None => Ok(0),
    }
}

fn subjects(
    connection: &Connection,
    query: &str,
    values: impl rusqlite::Params,
    subject: fn(&Row<'_>) -> rusqlite::Result<Subject>,
) -> Result<Vec<Subject>> {
    let mut statement = connection.prepare_cached(query)?;
    Ok(statement.query_map(values, subject)?.collect::<rusqlite::Result<_>>()?)
}

fn due(connection: &Connection, chore: Chore, limit: u32) -> Result<Vec<Subject>> {
    let job = |row: &Row<'_>| Ok(Subject::Job(JobId::from_bytes(row.get(0)?)));
    let run =
        |row: &Row<'_>| Ok(Subject::Run(JobId::from_bytes(row.get(0)?), RunId::from_bytes(row.get(1)?)));
    let upload = |row: &Row<'_>| Ok(Subject::Upload(UploadId::from_bytes(row.get(0)?)));
    match chore {
        Chore::DeletedJobs => {
            let query = "SELECT job_id FROM jobs WHERE status = 'deleted' LIMIT ?1";
            subjects(connection, query, [limit], job)
        }
        // A submit is one transaction.
        Chore::AbandonedSubmits { .. } => Ok(Vec::new()),
        Chore::EndedQueues => {
            let query = "SELECT job_id, run_id FROM runs WHERE queue_removed = 0
                AND status IN ('completed', 'stopped', 'failed', 'deleted') LIMIT ?1";
            subjects(connection, query, [limit], run)
        }
        Chore::DeletedRuns => {
            let query = "SELECT job_id, run_id FROM runs WHERE status = 'deleted' AND storage <> 'removed'
                AND EXISTS (SELECT 1 FROM jobs WHERE jobs.job_id = runs.job_id AND jobs.status <> 'deleted')
                LIMIT ?1";
            subjects(connection, query, [limit], run)
        }
        // A run that was deleted goes its own way, however old it is.
        Chore::ExpiredRuns { ended_before } => {
            let query = "SELECT job_id, run_id FROM runs
                WHERE storage = 'kept' AND status IN ('completed', 'stopped', 'failed')
                AND sequence > 0 AND updated_ms < ?1 ORDER BY updated_ms LIMIT ?2";
            subjects(connection, query, params![ended_before.0, limit], run)
        }
        Chore::ExpiredUploads { by } => {
            let query = "SELECT upload_id FROM uploads WHERE doomed = 1
                UNION ALL SELECT upload_id FROM uploads WHERE doomed = 0 AND claimed = 0 AND expires_ms <= ?1
                LIMIT ?2";
            subjects(connection, query, params![by.0, limit], upload)
        }
    }
}

#[async_trait]
impl Retention for Embedded {
    async fn due(&self, chore: Chore, limit: u32) -> Result<Vec<Subject>> {
        self.read(Lane::Work, move |connection| due(connection, chore, limit)).await
    }

    async fn remove_rows(&self, rows: Removal, limit: u32) -> Result<u32> {
        self.write(move |connection| match rows {
            Removal::Job(job) => remove_rows(connection, job, limit),
            Removal::Run(key) => remove_ended(connection, key, limit),
            Removal::Submit(_) => Ok(0),
            Removal::Records { by } => records::remove_expired(connection, by, limit),
        })
        .await
    }

    async fn mark(&self, key: RunKey, mark: Mark) -> Result<()> {
        self.write(move |connection| match mark {
            Mark::QueueGone => queue_gone(connection, key),
            Mark::RowsGone(storage) => rows_gone(connection, key, storage),
        })
        .await
    }

    async fn forget_job(&self, job: JobId, now: Timestamp) -> Result<bool> {
        self.write(move |connection| forget(connection, job, now)).await
    }

    async fn tombstones(&self, now: Timestamp, limit: u32) -> Result<Vec<Tombstone>> {
        self.read(Lane::Work, move |connection| tombstones::due(connection, now, limit)).await
    }

    async fn looked_at(&self, tombstone: &Tombstone, next: Option<Timestamp>) -> Result<()> {
        let tombstone = tombstone.clone();
        self.write(move |connection| tombstones::looked_at(connection, &tombstone, next)).await
    }
}
