//! Rows against counters (SPEC 6.14). A snapshot is one moment, so there is nothing to make up for here.

use super::codec::{corrupt, failure_class, task_key, task_status};
use super::{Embedded, runs};
use crate::port::{ProofStore, Result, RunKey, Tally};
use async_trait::async_trait;
use conveyor_domain::proof::{RowCounts, Sums};
use conveyor_domain::{TaskStatus, Timestamp, WorkerId};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashMap;

/// Whose counter row corrections are: nobody's.
const CORRECTION: [u8; 16] = [0; 16];

fn count_rows(connection: &Connection, run_key: i64) -> Result<RowCounts> {
    let mut statement = connection.prepare_cached(
        "SELECT status, class, count(*) FROM tasks WHERE task_key >= ?1 AND task_key < ?2 GROUP BY status, class",
    )?;
    let groups = statement.query_map(params![task_key(run_key, 0), task_key(run_key + 1, 0)], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?, row.get::<_, u32>(2)?))
    })?;
    let mut rows = RowCounts::default();
    for group in groups {
        let (status, class, count) = group?;
        match (task_status(status)?, class.and_then(failure_class)) {
            (TaskStatus::Pending, _) => rows.pending += count,
            (TaskStatus::Processing, _) => rows.processing += count,
            (TaskStatus::Successful, _) => rows.settled.successful += count,
            (TaskStatus::Failed, Some(class)) => rows.settled.failed[class as usize] += count,
            (TaskStatus::Failed, None) => rows.unclassified += count,
        }
    }
    Ok(rows)
}

/// How many results are in each object, and how many are in none.
fn count_objects(connection: &Connection, run_key: i64) -> Result<(HashMap<String, u32>, u32)> {
    let mut statement = connection.prepare_cached(
        "SELECT json_extract(result, '$.object') AS object, count(*) FROM tasks
         WHERE task_key >= ?1 AND task_key < ?2 AND status = 2 GROUP BY object",
    )?;
    let groups = statement.query_map(params![task_key(run_key, 0), task_key(run_key + 1, 0)], |row| {
        Ok((row.get::<_, Option<String>>(0)?, row.get::<_, u32>(1)?))
    })?;
    let (mut objects, mut without) = (HashMap::new(), 0);
    for group in groups {
        match group? {
            (Some(object), count) => drop(objects.insert(object, count)),
            (None, count) => without += count,
        }
    }
    Ok((objects, without))
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
            let (objects, without_object) =
                if with_objects { count_objects(connection, stored.key)? } else { Default::default() };
            Ok(Some(Tally {
                rows: count_rows(connection, stored.key)?,
                counters: runs::sums(connection, stored.key)?,
                revision: revision(connection, stored.key)?,
                run: stored.run,
                objects,
                without_object,
            }))
        })
        .await
    }

    async fn correct(&self, key: RunKey, missing: Sums, seen: u64, _now: Timestamp) -> Result<bool> {
        self.write(move |connection| {
            let Some(stored) = runs::find_visible(connection, key)? else { return Ok(false) };
            if revision(connection, stored.key)? != seen {
                return Ok(false);
            }
            let nobody = WorkerId::from_bytes(CORRECTION);
            runs::add(connection, stored.key, nobody, missing, seen + 1)?;
            Ok(true)
        })
        .await
    }
}
