//! A data directory.

use super::fixture::{Age, Fixture};
use super::outside::Outside;
use super::times::moved;
use super::{Taken, everything_is_there};
use crate::support::{self, Process};
use rusqlite::Connection;
use rusqlite::config::DbConfig;

/// The record kinds of this version (SPEC 5.7). Kinds that later versions add are not in its images.
pub const RECORDS: [&str; 8] =
    ["delivery", "export", "idempotency", "signing_keys", "quotas", "api_key", "live_job", "scheduled_job"];

async fn take_over(age: Age) {
    let fixture = Fixture::embedded();
    move_times(&fixture, fixture.shift_ms(age));
    let outside = Outside::start().await;
    let mut command = support::conveyor();
    // The keys are those in the directory.
    command.args(["dev", "--listen", "127.0.0.1:0", "--data-dir"]).arg(fixture.path("data"));
    command.args(["--gateway-url", &outside.url, "--allow-http-webhooks", "--sfn"]);
    command.env("CONVEYOR_LOG", "warn").env("AWS_ENDPOINT_URL_SFN", &outside.url);
    command
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test");
    let server = tokio::task::spawn_blocking(|| Process::start(command)).await.unwrap();
    let taken = Taken { fixture, age, outside, url: server.url.clone() };
    everything_is_there(&taken).await;
    server.stop().await;
}

fn has_every_kind(fixture: &Fixture) {
    let wal = std::fs::metadata(fixture.path("data/conveyor.db-wal")).unwrap();
    assert!(wal.len() > 0, "a crash leaves a log behind");
    let database = Connection::open(fixture.path("data/conveyor.db")).unwrap();
    let version: u32 = database.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(version, 5);
    let count = |sql: &str| database.query_row(sql, [], |row| row.get::<_, u32>(0)).unwrap();
    for (table, _) in columns(&database) {
        assert!(count(&format!("SELECT count(*) FROM {table}")) > 0, "{table} is empty");
    }
    for kind in RECORDS {
        assert!(count(&format!("SELECT count(*) FROM records WHERE kind = '{kind}'")) > 0, "no {kind}");
    }
    // States that only a crash leaves behind, and the row that only a correction makes.
    for rows in [
        "tasks WHERE status = 1",
        "tasks WHERE status = 0 AND attempts > 0",
        "tasks WHERE inherited IS NOT NULL",
        "runs WHERE ingest = 'pending' AND total = 0",
        "runs WHERE ingest = 'pending' AND total > 0",
        "runs WHERE status = 'deleted' AND storage = 'kept'",
        "runs WHERE status = 'deleted' AND storage = 'removed'",
        "runs WHERE paused = 1 AND doc LIKE '%failure_ratio%'",
        "jobs WHERE status = 'deleted'",
        "records WHERE kind = 'export' AND doc LIKE '%\"state\":\"running\"%'",
        "records WHERE kind = 'delivery' AND due_ms IS NOT NULL",
        "budgets WHERE doc LIKE '%permits%'",
        "counters WHERE revision > 0",
    ] {
        assert!(count(&format!("SELECT count(*) FROM {rows}")) > 0, "no {rows}");
    }
}

/// Every column of every table.
fn columns(database: &Connection) -> Vec<(String, Vec<(String, String)>)> {
    let tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
    let mut tables = database.prepare(tables).unwrap();
    let tables = tables.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap);
    let of = |table: &String| {
        let mut columns = database.prepare(&format!("PRAGMA table_info({table})")).unwrap();
        let columns = columns.query_map([], |row| Ok((row.get(1)?, row.get(2)?))).unwrap();
        columns.map(Result::unwrap).collect()
    };
    tables.map(|table| (table.clone(), of(&table))).collect()
}

/// In place, and without touching the log of the crash: what is written here goes behind it.
fn move_times(fixture: &Fixture, by_ms: i64) {
    let database = Connection::open(fixture.path("data/conveyor.db")).unwrap();
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    database.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
    database.pragma_update(None, "synchronous", "OFF").unwrap();
    database.execute_batch("BEGIN").unwrap();
    for (table, columns) in columns(&database) {
        for (column, kind) in columns {
            if column.ends_with("_ms") {
                // Twice, because a time may be part of a key: no row may meet another on its way.
                let far = format!(
                    "UPDATE {table} SET {column} = -({column} + {by_ms}) WHERE {column} > 1000000000000"
                );
                let back = format!("UPDATE {table} SET {column} = -{column} WHERE {column} < -1");
                database.execute_batch(&format!("{far}; {back}")).unwrap();
            } else if kind == "TEXT" && column != "input" {
                move_text(&database, &table, &column, fixture.made_ms(), by_ms);
            }
        }
    }
    database.execute_batch("COMMIT").unwrap();
}

fn move_text(database: &Connection, table: &str, column: &str, made_ms: i64, by_ms: i64) {
    let select = format!("SELECT DISTINCT {column} FROM {table} WHERE {column} IS NOT NULL");
    let mut select = database.prepare(&select).unwrap();
    let texts: Vec<String> = select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    for text in texts {
        let other = moved(&text, made_ms, by_ms);
        if other != text {
            let update = format!("UPDATE {table} SET {column} = ?2 WHERE {column} = ?1");
            database.execute(&update, [&text, &other]).unwrap();
        }
    }
}

#[test]
fn a_data_directory_has_every_kind_of_row() {
    has_every_kind(&Fixture::embedded());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_directory_is_taken_over_after_a_crash() {
    take_over(Age::Fresh).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_directory_that_was_left_alone_for_a_year_is_taken_over() {
    take_over(Age::Old).await;
}
