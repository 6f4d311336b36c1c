//! Small documents beside jobs and runs (SPEC 5.7). What happens together with a change of a job is written in the same
//! transaction.

use super::Embedded;
use super::codec::{self, corrupt};
use super::reader::Lane;
use crate::port::{DueQuery, RecordStore, RecordsQuery, Result};
use async_trait::async_trait;
use conveyor_domain::job::record::Expected;
use conveyor_domain::{Record, RecordKey, RecordKind, RecordVersion, RecordWrite, Timestamp, limits};
use rusqlite::{Connection, OptionalExtension, Row, params};

const COLUMNS: &str = "kind, owner, id, version, due_ms, expires_ms, doc";

fn decode(row: &Row<'_>) -> Result<Record> {
    let kind: String = row.get(0)?;
    Ok(Record {
        key: RecordKey {
            kind: kind.parse().map_err(|_| corrupt("kind of a record"))?,
            owner: row.get(1)?,
            id: row.get(2)?,
        },
        version: RecordVersion::from_stored(row.get(3)?),
        due: row.get::<_, Option<i64>>(4)?.map(Timestamp),
        expires: row.get::<_, Option<i64>>(5)?.map(Timestamp),
        doc: row.get(6)?,
    })
}

fn find(connection: &Connection, key: &RecordKey) -> Result<Option<Record>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM records WHERE kind = ?1 AND owner = ?2 AND id = ?3"
    ))?;
    let found = statement.query_row(params![key.kind.as_str(), key.owner, key.id], |row| Ok(decode(row)));
    found.optional()?.transpose()
}

/// The version of what is there; `Some(None)` if that cannot be read. Whatever else is damaged can be written over.
fn version_of(connection: &Connection, key: &RecordKey) -> Result<Option<Option<RecordVersion>>> {
    let mut statement = connection
        .prepare_cached("SELECT version FROM records WHERE kind = ?1 AND owner = ?2 AND id = ?3")?;
    let found = statement.query_row(params![key.kind.as_str(), key.owner, key.id], |row| {
        Ok(row.get_ref(0)?.as_i64().ok().map(RecordVersion::from_stored))
    });
    Ok(found.optional()?)
}

pub fn is_at(connection: &Connection, key: &RecordKey, version: RecordVersion) -> Result<bool> {
    Ok(version_of(connection, key)?.flatten() == Some(version))
}

/// Writes if what is there is what was expected. The caller is inside a transaction.
pub fn write(connection: &Connection, write: &RecordWrite) -> Result<bool> {
    let found = version_of(connection, write.key())?;
    if let (RecordWrite::Put { record, .. }, Some(Some(found))) = (write, found)
        && record.version == found
    {
        // Ours, although its answer was lost.
        return Ok(true);
    }
    let holds = match write.expected() {
        Expected::Anything => true,
        Expected::Absent => found.is_none(),
        Expected::Version(version) => found == Some(Some(version)),
    };
    if !holds {
        return Ok(false);
    }
    match write {
        RecordWrite::Put { record, .. } => put(connection, record)?,
        RecordWrite::Remove { key, .. } => {
            connection
                .prepare_cached("DELETE FROM records WHERE kind = ?1 AND owner = ?2 AND id = ?3")?
                .execute(params![key.kind.as_str(), key.owner, key.id])?;
        }
    }
    Ok(true)
}

fn put(connection: &Connection, record: &Record) -> Result<()> {
    connection
        .prepare_cached(&format!(
            "INSERT OR REPLACE INTO records ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
        ))?
        .execute(params![
            record.key.kind.as_str(),
            record.key.owner,
            record.key.id,
            record.version.to_stored(),
            record.due.map(|due| due.0),
            record.expires.map(|expires| expires.0),
            record.doc,
        ])?;
    Ok(())
}

/// Makes due again what a clock that was wrong has put off for longer than anybody may. For schedules see
/// [`jobs::realign`](super::jobs::realign). An export that has not ended waits for seconds only, so each is looked at, whatever its time says; one that has
/// waits to be removed.
pub fn bring_back(connection: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    connection.execute(
        "UPDATE records SET due_ms = ?1 WHERE kind = ?2 AND due_ms > ?3",
        params![now.0, RecordKind::Delivery.as_str(), now.after(limits::NOT_BEFORE_MAX).0],
    )?;
    connection.execute(
        "UPDATE records SET due_ms = ?1 WHERE kind = ?2 AND due_ms > ?1
            AND CASE WHEN json_valid(doc) THEN json_extract(doc, '$.state') NOT IN ('completed', 'failed') END",
        params![now.0, RecordKind::Export.as_str()],
    )?;
    Ok(())
}

/// Removes up to `limit` records that are past their time.
pub fn remove_expired(connection: &Connection, by: Timestamp, limit: u32) -> Result<u32> {
    let removed = connection
        .prepare_cached(
            "DELETE FROM records WHERE (kind, owner, id) IN
                (SELECT kind, owner, id FROM records WHERE expires_ms <= ?1 LIMIT ?2)",
        )?
        .execute(params![by.0, limit])?;
    Ok(u32::try_from(removed).unwrap_or(u32::MAX))
}

fn page(connection: &Connection, query: &RecordsQuery) -> Result<Vec<Record>> {
    let (side, order) = if query.newest_first { ("<", "DESC") } else { (">", "ASC") };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM records WHERE kind = ?1 AND owner = ?2 AND (?3 IS NULL OR id {side} ?3)
         ORDER BY id {order}"
    ))?;
    let values = params![query.kind.as_str(), query.owner, query.after];
    codec::readable("record", &mut statement, values, query.limit, decode)
}

/// All of it is in the index.
fn due_keys(connection: &Connection, query: DueQuery) -> Result<Vec<(Timestamp, RecordKey)>> {
    let (side, order, end) =
        if query.newest_first { ("<", "DESC", i64::MAX) } else { (">", "ASC", i64::MIN) };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT due_ms, owner, id FROM records
         WHERE kind = ?1 AND due_ms <= ?2 AND (due_ms, owner, id) {side} (?3, ?4, ?5)
         ORDER BY due_ms {order}, owner {order}, id {order}"
    ))?;
    let (since, owner, id) = match query.after {
        Some((since, key)) => (since.0, key.owner, key.id),
        None => (end, String::new(), String::new()),
    };
    let values = params![query.kind.as_str(), query.by.0, since, owner, id];
    codec::readable("record", &mut statement, values, query.limit, |row| {
        Ok((Timestamp(row.get(0)?), RecordKey { kind: query.kind, owner: row.get(1)?, id: row.get(2)? }))
    })
}

#[async_trait]
impl RecordStore for Embedded {
    async fn record(&self, key: &RecordKey) -> Result<Option<Record>> {
        let key = key.clone();
        let lane = if key.kind == RecordKind::ApiKey { Lane::Keys } else { Lane::Points };
        self.read(lane, move |connection| find(connection, &key)).await
    }

    async fn write_record(&self, record: RecordWrite) -> Result<bool> {
        self.write(move |connection| write(connection, &record)).await
    }

    async fn records(&self, query: RecordsQuery) -> Result<Vec<Record>> {
        self.read(Lane::Points, move |connection| page(connection, &query)).await
    }

    async fn due_keys(&self, query: DueQuery) -> Result<Vec<(Timestamp, RecordKey)>> {
        self.read(Lane::Work, move |connection| due_keys(connection, query)).await
    }
}
