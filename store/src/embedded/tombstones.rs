//! What is remembered of jobs that are gone (SPEC 6.6).

use super::codec::{self, corrupt, from_json};
use super::runs::ids_doc;
use crate::port::{Error, Result, Tombstone};
use conveyor_domain::{JobId, RunId, Timestamp, limits};
use rusqlite::{Connection, Row, params};

/// `Conflict` if a job of this id was deleted and removed: whoever makes it anew was stalled across all of that.
pub fn refuse(connection: &Connection, job: JobId) -> Result<()> {
    let mut statement = connection.prepare_cached("SELECT 1 FROM tombstones WHERE job_id = ?1")?;
    if statement.exists([job.to_bytes()])? {
        return Err(Error::Conflict("a job of this id was deleted".to_owned()));
    }
    Ok(())
}

/// Remembers a job, while its runs are still there.
pub fn put(connection: &Connection, job: JobId, now: Timestamp) -> Result<()> {
    let mut statement =
        connection.prepare_cached("SELECT run_id FROM runs WHERE job_id = ?1 ORDER BY sequence")?;
    let rows = statement.query_map([job.to_bytes()], |row| Ok(RunId::from_bytes(row.get(0)?)))?;
    let runs: Vec<RunId> = rows.collect::<rusqlite::Result<_>>()?;
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO tombstones (job_id, runs, gone_ms, looks, due_ms) VALUES (?1, ?2, ?3, 0, ?4)",
        )?
        .execute(params![job.to_bytes(), ids_doc(&runs)?, now.0, now.after(limits::TOMBSTONE_LOOKS[0]).0])?;
    Ok(())
}

pub fn due(connection: &Connection, now: Timestamp, limit: u32) -> Result<Vec<Tombstone>> {
    let mut statement = connection.prepare_cached(
        "SELECT job_id, runs, gone_ms, looks FROM tombstones WHERE due_ms <= ?1 ORDER BY due_ms",
    )?;
    codec::readable("tombstone", &mut statement, [now.0], limit, decode)
}

fn decode(row: &Row<'_>) -> Result<Tombstone> {
    let ids: Vec<String> = from_json(&row.get::<_, String>(1)?)?;
    let runs = ids.iter().map(|id| id.parse().map_err(|_| corrupt("runs of a tombstone")));
    Ok(Tombstone {
        job: JobId::from_bytes(row.get(0)?),
        runs: runs.collect::<Result<_>>()?,
        gone: Timestamp(row.get(2)?),
        looks: row.get(3)?,
    })
}

/// Only if nobody else looked since: of two sweepers at once, one counts.
pub fn looked_at(connection: &Connection, tombstone: &Tombstone, next: Option<Timestamp>) -> Result<()> {
    let (job, looks) = (tombstone.job.to_bytes(), tombstone.looks);
    match next {
        Some(due) => connection
            .prepare_cached(
                "UPDATE tombstones SET looks = looks + 1, due_ms = ?3 WHERE job_id = ?1 AND looks = ?2",
            )?
            .execute(params![job, looks, due.0])?,
        None => connection
            .prepare_cached("DELETE FROM tombstones WHERE job_id = ?1 AND looks = ?2")?
            .execute(params![job, looks])?,
    };
    Ok(())
}
