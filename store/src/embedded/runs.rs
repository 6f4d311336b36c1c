//! Run rows and what was counted of them.

use super::codec::{self, corrupt, from_json, ingest_status, run_status, storage, to_json};
use super::latest::Latest;
use super::scan;
use crate::port::{Error, Page, Result, RunKey, RunView, RunsQuery};
use conveyor_domain::schedule::Template;
use conveyor_domain::{
    Counts, FailureClass, IngestStatus, JobId, Run, RunFailure, RunId, RunStats, Spend, Storage, Sums,
    Timestamp, WorkerId, spend,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

const COLUMNS: &str = "run_key, run_id, job_id, sequence, status, total, next_index, latched, id_seed, failure, created_ms, updated_ms, ingest, paused, sources, storage, doc";

/// A run and the small number that its rows go by.
#[derive(Clone, Debug)]
pub struct StoredRun {
    pub key: i64,
    pub run: Run,
}

fn decode(row: &Row<'_>) -> Result<StoredRun> {
    let failure: Option<String> = row.get(9)?;
    let ingest: Option<String> = row.get(12)?;
    Ok(StoredRun {
        key: row.get(0)?,
        run: Run {
            id: RunId::from_bytes(row.get(1)?),
            job: JobId::from_bytes(row.get(2)?),
            sequence: row.get(3)?,
            status: run_status(row.get_ref(4)?.as_str().map_err(|_| corrupt("run status"))?)?,
            total: row.get(5)?,
            next_index: row.get(6)?,
            latched: row.get(7)?,
            ingest: ingest.map(|text| ingest_status(&text)).transpose()?,
            id_seed: RunId::from_bytes(row.get(8)?),
            failure: failure.map(|f| from_json::<RunFailure>(&f)).transpose()?,
            paused: row.get(13)?,
            sources: sources(&row.get::<_, String>(14)?)?,
            storage: storage(row.get_ref(15)?.as_str().map_err(|_| corrupt("storage of a run"))?)?,
            doc: from_json(&row.get::<_, String>(16)?)?,
            created: Timestamp(row.get(10)?),
            updated: Timestamp(row.get(11)?),
        },
    })
}

/// Ids as callers write them: a document that a person may have to read.
fn sources(doc: &str) -> Result<Vec<RunId>> {
    let ids: Vec<String> = from_json(doc)?;
    ids.iter().map(|id| id.parse().map_err(|_| corrupt("sources of a run"))).collect()
}

pub fn ids_doc(ids: &[RunId]) -> Result<String> {
    to_json(&ids.iter().map(RunId::to_string).collect::<Vec<_>>())
}

fn one(connection: &Connection, condition: &str, values: impl rusqlite::Params) -> Result<Option<StoredRun>> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT {COLUMNS} FROM runs WHERE {condition}"))?;
    statement.query_row(values, |row| Ok(decode(row))).optional()?.transpose()
}

/// The latest run of a job, and its id; or the id of the template, if that is what has the key.
pub fn latest(connection: &Connection, key: i64) -> Result<(RunId, Option<StoredRun>)> {
    let stored = one(connection, "run_key = ?1", [key])?.ok_or_else(|| corrupt("run of a job"))?;
    Ok((stored.run.id, Some(stored).filter(is_run)))
}

/// Not a template, whose row is one of these.
fn is_run(stored: &StoredRun) -> bool {
    stored.run.sequence != Template::SEQUENCE
}

/// A run, or the template of a job, as it is stored.
fn find_row(connection: &Connection, key: RunKey) -> Result<Option<StoredRun>> {
    one(connection, "run_id = ?1 AND job_id = ?2", [key.run.to_bytes(), key.job.to_bytes()])
}

pub fn find(connection: &Connection, key: RunKey) -> Result<Option<StoredRun>> {
    Ok(find_row(connection, key)?.filter(is_run))
}

/// One that is there for readers.
pub fn find_visible(connection: &Connection, key: RunKey) -> Result<Option<StoredRun>> {
    Ok(find_listed(connection, key)?.filter(is_run))
}

/// One whose tasks can be listed: those of a template are, to make runs of them.
pub fn find_listed(connection: &Connection, key: RunKey) -> Result<Option<StoredRun>> {
    Ok(find_row(connection, key)?.filter(|stored| stored.run.storage != Storage::Removed))
}

/// Whether another run needs this one ([`Run::needs`], in the words of the database).
pub fn is_needed(connection: &Connection, key: RunKey) -> Result<bool> {
    let mut statement = connection.prepare_cached(
        "SELECT 1 FROM runs
         WHERE job_id = ?1 AND run_id <> ?2 AND status <> 'deleted' AND storage = 'kept' AND (
            (EXISTS (SELECT 1 FROM json_each(iif(json_valid(runs.sources), runs.sources, '[]')) AS source
                WHERE source.value = ?3)
             AND (ingest IS 'pending' OR NOT json_valid(doc) OR json_extract(doc, '$.inherited') IS NOT NULL))
            OR (ingest = 'pending' AND json_extract(iif(json_valid(doc), doc, '{}'), '$.rerun_of') = ?3))",
    )?;
    Ok(statement.exists(params![key.job.to_bytes(), key.run.to_bytes(), key.run.to_string()])?)
}

pub fn page(connection: &Connection, query: RunsQuery) -> Result<Page<StoredRun, RunId>> {
    let before = match query.before {
        None => u32::MAX,
        Some(run) => connection
            .prepare_cached("SELECT sequence FROM runs WHERE job_id = ?1 AND run_id = ?2")?
            .query_row(params![query.job.to_bytes(), run.to_bytes()], |row| row.get(0))
            .optional()?
            .unwrap_or(0),
    };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM runs WHERE job_id = ?1 AND sequence < ?2 AND sequence > ?3
         ORDER BY sequence DESC"
    ))?;
    let rows = statement.query(params![query.job.to_bytes(), before, Template::SEQUENCE])?;
    let id = |row: &Row<'_>| Ok(RunId::from_bytes(row.get(1)?));
    scan::page(rows, "run", (query.limit, query.look), id, |row| {
        Ok(Some(decode(row)?).filter(|stored| stored.run.storage != Storage::Removed))
    })
}

pub fn active(connection: &Connection) -> Result<Vec<StoredRun>> {
    all(connection, "status = 'running' ORDER BY run_key", [])
}

/// Runs that changed at that moment or later, those last that changed last.
pub fn changed(connection: &Connection, since: Timestamp) -> Result<Vec<StoredRun>> {
    all(connection, "changed_ms >= ?1 ORDER BY changed_ms", [since.0])
}

/// All that can be read: one that cannot must not keep everybody else's work from going on.
fn all(connection: &Connection, condition: &str, values: impl rusqlite::Params) -> Result<Vec<StoredRun>> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT {COLUMNS} FROM runs WHERE {condition}"))?;
    codec::readable("run", &mut statement, values, u32::MAX, decode)
}

/// Every run of a job, and whether its row can be read.
pub fn each_of(connection: &Connection, job: JobId) -> Result<Vec<(RunId, Result<()>)>> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT {COLUMNS} FROM runs WHERE job_id = ?1"))?;
    let each = statement
        .query_map([job.to_bytes()], |row| Ok((RunId::from_bytes(row.get(1)?), decode(row).map(drop))))?;
    Ok(each.collect::<rusqlite::Result<_>>()?)
}

/// Inserts a run; its key is given out here.
pub fn insert(connection: &Connection, latest: &Latest, run: &Run) -> Result<i64> {
    connection
        .prepare_cached(
            "INSERT INTO runs (run_id, job_id, sequence, status, total, next_index, latched, id_seed, failure, created_ms, updated_ms, ingest, paused, changed_ms, sources, storage, doc, queue_removed)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)",
        )?
        .execute(params![
            run.id.to_bytes(),
            run.job.to_bytes(),
            run.sequence,
            run.status.as_str(),
            run.total,
            run.next_index,
            run.latched,
            run.id_seed.to_bytes(),
            failure_doc(run)?,
            run.created.0,
            run.updated.0,
            run.ingest.map(IngestStatus::as_str),
            run.paused,
            latest.stamp(run.updated).0,
            ids_doc(&run.sources)?,
            run.storage.as_str(),
            to_json(&run.doc)?,
            // A template never has one.
            run.sequence == Template::SEQUENCE,
        ])?;
    let key = connection.last_insert_rowid();
    // Keys share an integer with a 32-bit index; 2^31 runs are out of reach, but not out of mind.
    if key >= 1 << 31 { Err(Error::Full("no run keys left".to_owned())) } else { Ok(key) }
}

pub fn update(connection: &Connection, latest: &Latest, key: i64, run: &Run) -> Result<()> {
    connection
        .prepare_cached(
            "UPDATE runs SET status = ?2, total = ?3, next_index = ?4, latched = ?5, failure = ?6, updated_ms = ?7, ingest = ?8,
                paused = ?9, changed_ms = ?10, doc = ?11
             WHERE run_key = ?1",
        )?
        .execute(params![
            key,
            run.status.as_str(),
            run.total,
            run.next_index,
            run.latched,
            failure_doc(run)?,
            run.updated.0,
            run.ingest.map(IngestStatus::as_str),
            run.paused,
            latest.stamp(run.updated).0,
            to_json(&run.doc)?,
        ])?;
    Ok(())
}

fn failure_doc(run: &Run) -> Result<Option<String>> {
    run.failure.as_ref().map(to_json).transpose()
}

/// What is done of a run, and what it cost.
pub fn stats(connection: &Connection, stored: &StoredRun) -> Result<RunStats> {
    let (sums, spend) = sums_and_spend(connection, stored.key)?;
    Ok(RunStats { total: stored.run.total, counts: stored.run.counted(sums.counts()), spend })
}

/// What the counter rows of a run add up to, as they are: one that was damaged can hold anything.
pub fn sums(connection: &Connection, key: i64) -> Result<Sums> {
    Ok(sums_and_spend(connection, key)?.0)
}

fn sums_and_spend(connection: &Connection, key: i64) -> Result<(Sums, Spend)> {
    let mut statement = connection.prepare_cached(
        "SELECT total(successful), total(auth_failed), total(blocked), total(bad_target), total(rate_limited),
                total(timeout), total(gateway_error), total(other),
                total(credits), total(cost_nanos / 1000000000), total(cost_nanos % 1000000000)
         FROM counters WHERE run_key = ?1",
    )?;
    let sums = statement.query_row([key], |row| {
        // `total()` is a float: exact up to 2^53, 0 where there is no row, and nothing makes it fail.
        let whole = |column: usize| -> rusqlite::Result<i64> { Ok(row.get::<_, f64>(column)? as i64) };
        let mut sums = Sums { successful: whole(0)?, ..Sums::default() };
        for class in FailureClass::ALL {
            sums.failed[class as usize] = whole(1 + class as usize)?;
        }
        let amount = |column: usize| whole(column).map(|n| u64::try_from(n).unwrap_or(0));
        // Whole units and the rest apart, so that both are exact.
        let cost_nanos = amount(9)?.saturating_mul(1_000_000_000).saturating_add(amount(10)?);
        Ok((sums, Spend::default().plus(Spend { credits: amount(8)?, cost_nanos })))
    })?;
    Ok(sums)
}

/// Adds to one worker's own counter row of a run.
pub fn count(connection: &Connection, key: i64, worker: WorkerId, delta: Counts, spend: Spend) -> Result<()> {
    if delta.is_zero() && spend.is_zero() {
        return Ok(());
    }
    add(connection, key, worker, delta.into(), 0)?;
    if spend.is_zero() {
        return Ok(());
    }
    // Neither is more than half of what an integer holds, so that the sum is one.
    connection
        .prepare_cached(
            "UPDATE counters SET credits = min(credits + ?3, ?5), cost_nanos = min(cost_nanos + ?4, ?5)
             WHERE run_key = ?1 AND worker = ?2",
        )?
        .execute(params![
            key,
            worker.to_bytes(),
            spend.credits.cast_signed(),
            spend.cost_nanos.cast_signed(),
            spend::SUM_MAX.cast_signed(),
        ])?;
    Ok(())
}

/// Adds to a counter row, and moves it to this revision.
pub fn add(connection: &Connection, key: i64, worker: WorkerId, delta: Sums, revision: u64) -> Result<()> {
    let f = delta.failed;
    connection
        .prepare_cached(
            "INSERT INTO counters (run_key, worker, successful, auth_failed, blocked, bad_target, rate_limited, timeout,
                gateway_error, other, revision)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
             ON CONFLICT (run_key, worker) DO UPDATE SET
                successful = successful + excluded.successful, auth_failed = auth_failed + excluded.auth_failed,
                blocked = blocked + excluded.blocked, bad_target = bad_target + excluded.bad_target,
                rate_limited = rate_limited + excluded.rate_limited, timeout = timeout + excluded.timeout,
                gateway_error = gateway_error + excluded.gateway_error, other = other + excluded.other,
                revision = excluded.revision",
        )?
        .execute(params![
            key,
            worker.to_bytes(),
            delta.successful,
            f[0],
            f[1],
            f[2],
            f[3],
            f[4],
            f[5],
            f[6],
            revision.cast_signed(),
        ])?;
    Ok(())
}

pub fn view(connection: &Connection, stored: StoredRun) -> Result<RunView> {
    let stats = stats(connection, &stored)?;
    Ok(RunView { run: stored.run, stats })
}
