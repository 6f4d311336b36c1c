//! Opening a data directory: lock, check, create or refuse, and clear what a crash left.

use super::files::Files;
use super::latest::Latest;
use super::lock::{DirectoryLock, LockError};
use super::presence::Presence;
use super::probe::Probe;
use super::reader::Readers;
use super::writer::{self, Writer};
use super::{Embedded, budgets, files, jobs, records};
use conveyor_domain::job::beside::{live_job_key, live_job_record};
use conveyor_domain::{CallerId, JobId, Record, RecordKind, RunId, Timestamp, limits};
use conveyor_turns::Gate;
use rusqlite::{Connection, OpenFlags, ffi, params};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::watch;

/// "CONV": tells our database from any other SQLite file.
const APPLICATION_ID: i32 = 0x434F_4E56;
/// Each layout on top of the one before it; the version is how many there are.
const LAYOUTS: [&str; 6] = [
    include_str!("../../../schemas/embedded/0001.sql"),
    include_str!("../../../schemas/embedded/0002.sql"),
    include_str!("../../../schemas/embedded/0003.sql"),
    include_str!("../../../schemas/embedded/0004.sql"),
    include_str!("../../../schemas/embedded/0005.sql"),
    include_str!("../../../schemas/embedded/0006.sql"),
];
const LAYOUT_VERSION: i32 = LAYOUTS.len() as i32;
const STATEMENTS_CACHED: usize = 128;
const CACHE_KIB: i32 = 64 * 1024;
const READER_CACHE_KIB: i32 = 8 * 1024;
const CHECKPOINT_PAGES: i32 = 4_000;
const JOURNAL_MAX_BYTES: i64 = 64 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("cannot use data directory {}: {source}", dir.display())]
    Directory { dir: PathBuf, source: io::Error },
    #[error("{} is corrupt: {detail}. Nothing was changed; restore a backup, or move it away to start afresh", database.display())]
    Corrupt { database: PathBuf, detail: String },
    #[error("{} is not a Conveyor database. Nothing was changed", database.display())]
    NotOurs { database: PathBuf },
    #[error("{} has layout {found}, newer than layout {LAYOUT_VERSION} that this version knows. Nothing was changed; use a newer conveyor", database.display())]
    Newer { database: PathBuf, found: i32 },
    #[error("no room in data directory for {}: {detail}", database.display())]
    Full { database: PathBuf, detail: String },
    #[error("cannot open {}: {detail}", database.display())]
    Database { database: PathBuf, detail: String },
}

pub fn open(dir: &Path, now: Timestamp) -> Result<Embedded, OpenError> {
    let unusable = |source| OpenError::Directory { dir: dir.to_owned(), source };
    files::create_private(dir).map_err(unusable)?;
    let lock = DirectoryLock::acquire(dir)?;
    let database = dir.join("conveyor.db");
    let failed = |e: rusqlite::Error| explain(&database, &e);
    let connection = Connection::open(&database).map_err(failed)?;
    let found = find_layout(&connection, &database)?;
    configure_writer(&connection).map_err(failed)?;
    upgrade(&connection, found).map_err(failed)?;
    check_length(&connection, &database)?;
    revive(&connection, now).map_err(failed)?;
    let latest = Latest::new(now);
    writer::in_savepoint(&connection, |connection| jobs::realign(connection, &latest, now))
        .map_err(|e| OpenError::Database { database: database.clone(), detail: e.to_string() })?;
    let files = Files::open(dir).map_err(unusable)?;
    // The files inside are synced by those who write them; that the directory itself stays is up to us.
    files::sync_directory(dir).map_err(unusable)?;
    let presence = Arc::new(Presence::of(dir).map_err(unusable)?);
    Ok(Embedded {
        writer: Writer::start(connection, presence.clone()).map_err(unusable)?,
        readers: Readers::new(database),
        files,
        probe: Probe::default(),
        latest,
        changes: watch::channel(0).0,
        heavy: Gate::new(limits::HEAVY_WRITES_MAX, limits::HEAVY_WRITES_MAX),
        presence,
        _lock: lock,
    })
}

fn configure_writer(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode != "wal" {
        let detail = format!("journal mode {mode}: the file system does not support shared memory");
        return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CANTOPEN), Some(detail)));
    }
    // FULL: every commit is synced before it is answered. NORMAL would lose acknowledged work with the power.
    connection.pragma_update(None, "synchronous", "FULL")?;
    // Where a plain fsync does not reach the platter (macOS), this asks for the one that does.
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", JOURNAL_MAX_BYTES)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.pragma_update(None, "temp_store", "MEMORY")
}

pub fn connect_reader(database: &Path) -> rusqlite::Result<Connection> {
    // Query-only rather than a read-only open: a reader must be able to take part in the WAL's shared memory.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(database, flags)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "cache_size", -READER_CACHE_KIB)?;
    Ok(connection)
}

/// The version of the layout that is there, 0 if there is none. Only reads: what is not ours, or not yet known to us,
/// stays as it is.
fn find_layout(connection: &Connection, database: &Path) -> Result<usize, OpenError> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let read = || -> rusqlite::Result<(i32, i32, i32)> {
        let tables = connection.query_row("SELECT count(*) FROM sqlite_master", [], |r| r.get(0))?;
        Ok((pragma("application_id")?, pragma("user_version")?, tables))
    };
    let database = database.to_owned();
    match read().map_err(|e| explain(&database, &e))? {
        (0, 0, 0) => Ok(0),
        (APPLICATION_ID, found, _) if found > LAYOUT_VERSION => Err(OpenError::Newer { database, found }),
        (APPLICATION_ID, found, _) => match usize::try_from(found) {
            Ok(version) if version > 0 => Ok(version),
            Ok(_) | Err(_) => Err(OpenError::Corrupt { database, detail: format!("layout version {found}") }),
        },
        _ => Err(OpenError::NotOurs { database }),
    }
}

/// Adds the layouts that are missing. All or nothing: a crash in the middle leaves what was there, for the next start.
fn upgrade(connection: &Connection, found: usize) -> rusqlite::Result<()> {
    if found == LAYOUTS.len() {
        return Ok(());
    }
    let missing = LAYOUTS[found..].concat();
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE; {missing} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {LAYOUT_VERSION}; COMMIT;"
    ))
}

/// A file cut short reads well until somebody needs the missing part. Better to find out now.
fn check_length(connection: &Connection, database: &Path) -> Result<(), OpenError> {
    let read = || -> rusqlite::Result<(u64, u64)> {
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        let pages: i64 = connection.pragma_query_value(None, "page_count", |r| r.get(0))?;
        let page: i64 = connection.pragma_query_value(None, "page_size", |r| r.get(0))?;
        Ok((u64::try_from(pages).unwrap_or(0), u64::try_from(page).unwrap_or(0)))
    };
    let (pages, page) = read().map_err(|e| explain(database, &e))?;
    let length = std::fs::metadata(database).map(|m| m.len()).unwrap_or(0);
    if length < pages * page {
        let detail = format!("it has {length} bytes and should have {}", pages * page);
        return Err(OpenError::Corrupt { database: database.to_owned(), detail });
    }
    Ok(())
}

/// The lock proves that whoever held messages, permits or idempotency keys is dead: their messages can be received again at
/// once, and what they held is free.
fn revive(connection: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    let transaction = connection.unchecked_transaction()?;
    // A delayed message (a retry that is not due) becomes visible too; its claim answers `Early` and sends it back.
    transaction.execute(
        "UPDATE messages SET visible_ms = ?1
             WHERE queue_key IN (SELECT queue_key FROM queues) AND visible_ms > ?1",
        [now.0],
    )?;
    // The clock may have been days ahead until the last process ended, and be right now.
    records::bring_back(&transaction, now)?;
    budgets::revive(&transaction, now)?;
    // What was carried out has an answer, written with it. One that cannot be read must not keep the process from starting.
    transaction.execute(
        "DELETE FROM records
             WHERE kind = ?1 AND CASE WHEN json_valid(doc) THEN json_extract(doc, '$.state') = 'running' END",
        [RecordKind::Idempotency.as_str()],
    )?;
    note_live_jobs(&transaction)?;
    transaction.commit()
}

/// Jobs that were made live by a version that took no note of it.
fn note_live_jobs(connection: &Connection) -> rusqlite::Result<()> {
    let mut live = connection.prepare(
        "SELECT jobs.caller_id, jobs.job_id, runs.run_id FROM runs JOIN jobs ON jobs.latest_run_key = runs.run_key
         WHERE runs.status IN ('running', 'pending') AND jobs.status <> 'deleted'",
    )?;
    let mut note = connection.prepare(
        "INSERT OR IGNORE INTO records (kind, owner, id, version, doc) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    let mut rows = live.query([])?;
    while let Some(row) = rows.next()? {
        // One row that cannot be read must not keep all the others from being opened.
        let (Ok(caller), Ok(job), Ok(run)) = (row.get(0), row.get(1), row.get(2)) else { continue };
        let key = live_job_key(CallerId::from_bytes(caller), JobId::from_bytes(job));
        let Record { key, version, doc, .. } = live_job_record(key, RunId::from_bytes(run));
        note.execute(params![key.kind.as_str(), key.owner, key.id, version.to_stored(), doc])?;
    }
    Ok(())
}

fn explain(database: &Path, e: &rusqlite::Error) -> OpenError {
    let (database, detail) = (database.to_owned(), e.to_string());
    match e.sqlite_error().map(|f| f.extended_code & 0xff) {
        Some(ffi::SQLITE_CORRUPT | ffi::SQLITE_NOTADB) => OpenError::Corrupt { database, detail },
        Some(ffi::SQLITE_FULL) => OpenError::Full { database, detail },
        Some(_) | None => OpenError::Database { database, detail },
    }
}
