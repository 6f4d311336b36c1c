//! The timeline of each job, and in it the log of each ingest (SPEC 6.11, 6.12). Written inside the transaction that makes
//! it happen.

use super::Embedded;
use super::codec::{self, corrupt, from_json, to_json};
use super::reader::Lane;
use crate::port::{EventStore, Result, RunKey};
use async_trait::async_trait;
use conveyor_domain::{
    IngestEvent, JobEvent, JobId, LifecycleEvent, LoggedEvent, RunId, TimelineEntry, Timestamp,
};
use rusqlite::{Connection, Row, params};

pub fn happened(connection: &Connection, run: RunKey, event: &LifecycleEvent, at: Timestamp) -> Result<()> {
    insert(connection, run, None, &to_json(event)?, at)
}

/// The caller knows that the number is the next one of its run's log.
pub fn logged(
    connection: &Connection,
    run: RunKey,
    number: u32,
    event: &IngestEvent,
    at: Timestamp,
) -> Result<()> {
    insert(connection, run, Some(number), &to_json(event)?, at)
}

fn insert(
    connection: &Connection,
    run: RunKey,
    ingest_number: Option<u32>,
    doc: &str,
    at: Timestamp,
) -> Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO events (job_id, number, run_id, ingest_number, at_ms, doc)
             VALUES (?1, 1 + coalesce((SELECT max(number) FROM events WHERE job_id = ?1), 0), ?2, ?3, ?4, ?5)",
        )?
        .execute(params![run.job.to_bytes(), run.run.to_bytes(), ingest_number, at.0, doc])?;
    Ok(())
}

/// The number that the next event of a run's ingest gets.
pub fn next_number(connection: &Connection, run: RunId) -> Result<u32> {
    let mut statement = connection.prepare_cached(
        "SELECT 1 + coalesce(max(ingest_number), -1) FROM events WHERE run_id = ?1 AND ingest_number IS NOT NULL",
    )?;
    Ok(statement.query_row([run.to_bytes()], |row| row.get(0))?)
}

pub fn log(connection: &Connection, run: RunId) -> Result<Vec<LoggedEvent>> {
    let mut statement = connection.prepare_cached(
        "SELECT ingest_number, at_ms, doc FROM events WHERE run_id = ?1 AND ingest_number IS NOT NULL
         ORDER BY ingest_number",
    )?;
    let rows = statement.query_map([run.to_bytes()], |row| Ok(decode_logged(row)))?;
    rows.map(|row| row?).collect()
}

fn decode_logged(row: &Row<'_>) -> Result<LoggedEvent> {
    Ok(LoggedEvent { number: row.get(0)?, at: Timestamp(row.get(1)?), event: from_json(text(row, 2)?)? })
}

fn text<'a>(row: &'a Row<'_>, column: usize) -> Result<&'a str> {
    row.get_ref(column)?.as_str().map_err(|_| corrupt("event"))
}

fn decode(row: &Row<'_>) -> Result<TimelineEntry> {
    let is_ingest = row.get::<_, Option<u32>>(2)?.is_some();
    let doc = text(row, 4)?;
    Ok(TimelineEntry {
        number: row.get::<_, i64>(0)?.cast_unsigned(),
        run: RunId::from_bytes(row.get(1)?),
        at: Timestamp(row.get(3)?),
        event: if is_ingest {
            JobEvent::Ingest(from_json(doc)?)
        } else {
            JobEvent::Lifecycle(from_json(doc)?)
        },
    })
}

#[async_trait]
impl EventStore for Embedded {
    async fn events(&self, job: JobId, after: u64, limit: u32) -> Result<Vec<TimelineEntry>> {
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        self.read(Lane::Lists, move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT number, run_id, ingest_number, at_ms, doc FROM events
                 WHERE job_id = ?1 AND number > ?2 ORDER BY number",
            )?;
            codec::readable("event", &mut statement, params![job.to_bytes(), after], limit, decode)
        })
        .await
    }
}
