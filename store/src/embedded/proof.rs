//! Rows against counters (SPEC 6.14). A snapshot is one moment, so there is nothing to make up for here.

use super::codec::{corrupt, failure_class, from_json, task_key, task_status};
use super::{Embedded, runs};
use crate::port::{NamedObjects, ProofStore, Result, RunKey, Tally};
use async_trait::async_trait;
use conveyor_domain::proof::{RowCounts, Sums};
use conveyor_domain::task::ResultRef;
use conveyor_domain::{RunStatus, TaskStatus, Timestamp, WorkerId};
use rusqlite::{Connection, OptionalExtension, params};

/// Whose counter row corrections are: nobody's.
const CORRECTION: [u8; 16] = [0; 16];

/// Row by row: to have them grouped, SQLite would sort them first, a million into files of its own.
fn count_rows(connection: &Connection, run_key: i64) -> Result<RowCounts> {
    let mut statement = connection
        .prepare_cached("SELECT status, class FROM tasks WHERE task_key >= ?1 AND task_key < ?2")?;
    let mut found = statement.query(params![task_key(run_key, 0), task_key(run_key + 1, 0)])?;
    let mut rows = RowCounts::default();
    while let Some(row) = found.next()? {
        let class = row.get::<_, Option<i64>>(1)?.and_then(failure_class);
        match (task_status(row.get(0)?)?, class) {
            (TaskStatus::Pending, _) => rows.pending += 1,
            (TaskStatus::Processing, _) => rows.processing += 1,
            (TaskStatus::Successful, _) => rows.settled.successful += 1,
            (TaskStatus::Failed, Some(class)) => rows.settled.add_failed(class),
            (TaskStatus::Failed, None) => rows.unclassified += 1,
        }
    }
    Ok(rows)
}

fn name_objects(connection: &Connection, run_key: i64) -> Result<NamedObjects> {
    let mut statement = connection.prepare_cached(
        "SELECT result FROM tasks
         WHERE task_key >= ?1 AND task_key < ?2 AND status = 2",
    )?;
    let mut found = statement.query(params![task_key(run_key, 0), task_key(run_key + 1, 0)])?;
    let mut objects = NamedObjects::default();
    while let Some(row) = found.next()? {
        let result: Option<String> = row.get(0)?;
        let result = result.map(|text| from_json::<ResultRef>(&text)).transpose()?;
        objects.add(result.and_then(|result| result.object).as_deref());
    }
    Ok(objects)
}

fn revision(connection: &Connection, run_key: i64) -> Result<u64> {
    let mut statement =
        connection.prepare_cached("SELECT revision FROM counters WHERE run_key = ?1 AND worker = ?2")?;
    let found: Option<i64> =
        statement.query_row(params![run_key, CORRECTION], |row| row.get(0)).optional()?;
    u64::try_from(found.unwrap_or(0)).map_err(|_| corrupt("revision of a correction"))
}

#[async_trait]
impl ProofStore for Embedded {
    async fn tally(&self, key: RunKey, with_objects: bool) -> Result<Option<Tally>> {
        self.read(move |connection| {
            let Some(stored) = runs::find_visible(connection, key)? else { return Ok(None) };
            let objects =
                if with_objects { name_objects(connection, stored.key)? } else { NamedObjects::default() };
            Ok(Some(Tally {
                rows: count_rows(connection, stored.key)?,
                counters: runs::sums(connection, stored.key)?.plus(stored.run.doc.inherited.into()),
                revision: revision(connection, stored.key)?,
                run: stored.run,
                objects,
            }))
        })
        .await
    }

    async fn correct(&self, key: RunKey, missing: Sums, seen: u64, _now: Timestamp) -> Result<bool> {
        self.write(move |connection| {
            let Some(stored) = runs::find_visible(connection, key)? else { return Ok(false) };
            // Of one that is deleted the rows are on their way out: they prove nothing any more.
            let deleted = stored.run.status == RunStatus::Deleted;
            if deleted || revision(connection, stored.key)? != seen {
                return Ok(false);
            }
            let nobody = WorkerId::from_bytes(CORRECTION);
            runs::add(connection, stored.key, nobody, missing, seen + 1)?;
            Ok(true)
        })
        .await
    }
}
