//! Removing deleted jobs and the queues of ended runs, a bounded number of rows a step.

use super::codec::task_key;
use super::{Embedded, budgets};
use crate::port::{Result, Retention, RunKey};
use async_trait::async_trait;
use conveyor_domain::{JobId, RunId};
use rusqlite::{Connection, params};

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

#[async_trait]
impl Retention for Embedded {
    async fn deleted_jobs(&self, limit: u32) -> Result<Vec<JobId>> {
        self.read(move |connection| {
            let mut statement =
                connection.prepare_cached("SELECT job_id FROM jobs WHERE status = 'deleted' LIMIT ?1")?;
            let rows = statement.query_map([limit], |row| Ok(JobId::from_bytes(row.get(0)?)))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    async fn remove_rows(&self, job: JobId, limit: u32) -> Result<u32> {
        self.write(move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT run_key FROM runs WHERE job_id = ?1
                 AND EXISTS (SELECT 1 FROM jobs WHERE job_id = ?1 AND status = 'deleted')",
            )?;
            let keys = statement.query_map([job.to_bytes()], |row| row.get(0))?;
            for run_key in keys.collect::<rusqlite::Result<Vec<i64>>>()? {
                let removed = remove_run(connection, run_key, limit)?;
                if removed > 0 {
                    return Ok(removed);
                }
            }
            let removed = connection
                .prepare_cached(
                    "DELETE FROM events WHERE (job_id, number) IN
                        (SELECT job_id, number FROM events WHERE job_id = ?1
                         AND EXISTS (SELECT 1 FROM jobs WHERE job_id = ?1 AND status = 'deleted') LIMIT ?2)",
                )?
                .execute(params![job.to_bytes(), limit])?;
            Ok(u32::try_from(removed).unwrap_or(limit))
        })
        .await
    }

    async fn forget_job(&self, job: JobId) -> Result<bool> {
        self.write(move |connection| {
            // A run whose queue is still there waits for the other sweep, which finds queues by their runs. Until then, and
            // in one step then: a job without its run could not be read.
            let mut may_go = connection.prepare_cached(
                "SELECT 1 FROM jobs WHERE job_id = ?1 AND status = 'deleted'
                 AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.job_id = ?1 AND queue_removed = 0)",
            )?;
            if !may_go.exists([job.to_bytes()])? {
                return Ok(false);
            }
            for statement in [
                "UPDATE uploads SET claimed = EXISTS (
                    SELECT 1 FROM upload_claims c WHERE c.upload_id = uploads.upload_id AND c.job_id <> ?1)
                 WHERE upload_id IN (SELECT upload_id FROM upload_claims WHERE job_id = ?1)",
                "DELETE FROM upload_claims WHERE job_id = ?1",
                "DELETE FROM events WHERE job_id = ?1",
                "DELETE FROM counters WHERE run_key IN (SELECT run_key FROM runs WHERE job_id = ?1)",
                "DELETE FROM runs WHERE job_id = ?1",
                "DELETE FROM jobs WHERE job_id = ?1",
            ] {
                connection.prepare_cached(statement)?.execute([job.to_bytes()])?;
            }
            budgets::forget(connection, job)?;
            Ok(true)
        })
        .await
    }

    async fn ended_runs_with_queue(&self, limit: u32) -> Result<Vec<RunKey>> {
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT job_id, run_id FROM runs WHERE queue_removed = 0
                 AND status IN ('completed', 'stopped', 'failed', 'deleted') LIMIT ?1",
            )?;
            let rows = statement.query_map([limit], |row| {
                Ok(RunKey { job: JobId::from_bytes(row.get(0)?), run: RunId::from_bytes(row.get(1)?) })
            })?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    async fn queue_removed(&self, key: RunKey) -> Result<()> {
        self.write(move |connection| {
            connection
                .prepare_cached("UPDATE runs SET queue_removed = 1 WHERE run_id = ?1")?
                .execute([key.run.to_bytes()])?;
            Ok(())
        })
        .await
    }
}
