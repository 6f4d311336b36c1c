//! The embedded backend obeys every rule, and refuses data directories that it should not touch.

#![expect(clippy::unwrap_used, reason = "in a test, an unwrap that fails is the report")]

mod on_disk;

use conveyor_store::conformance::{Harness, World};
use conveyor_store::embedded::{Embedded, OpenError};
use on_disk::{NOW, OnDisk};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

conveyor_store::conformance_suite!(OnDisk::new());

#[tokio::test]
async fn many_callers_share_one_commit() {
    let disk = OnDisk::new();
    let world = Arc::new(World::new(disk.backend()));
    let submits: Vec<_> = (0..300)
        .map(|_| {
            let world = world.clone();
            tokio::spawn(async move { world.submit(false, 2).await })
        })
        .collect();
    for submit in submits {
        let key = submit.await.unwrap();
        assert_eq!(world.view(key).await.latest.stats.total, 2);
    }
}

#[test]
fn one_process_at_a_time_has_the_directory() {
    let disk = OnDisk::new();
    let second = Embedded::open(disk.dir.path(), NOW).unwrap_err();
    assert!(matches!(second, OpenError::Lock(_)));
    let text = second.to_string();
    assert!(text.contains("in use by process"), "{text}");
    let dir = disk.dir;
    drop(disk.store);
    Embedded::open(dir.path(), NOW).unwrap();
}

/// Every file of the directory but the lock's note, which names the process that looked.
fn contents(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap())
        .filter(|e| e.file_type().unwrap().is_file() && e.file_name() != "conveyor.lock")
        .map(|e| (e.file_name().into_string().unwrap(), std::fs::read(e.path()).unwrap()))
        .collect();
    files.sort();
    files
}

async fn used_directory() -> TempDir {
    let OnDisk { store, dir } = OnDisk::new();
    World::new(store.backend()).submit(false, 2_000).await;
    drop(store);
    dir
}

#[tokio::test]
async fn a_corrupt_database_is_refused_and_left_alone() {
    let dir = used_directory().await;
    std::fs::write(dir.path().join("conveyor.db"), vec![0x5a; 64 * 1024]).unwrap();
    let before = contents(dir.path());
    let error = Embedded::open(dir.path(), NOW).unwrap_err();
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
    assert_eq!(contents(dir.path()), before);
}

#[tokio::test]
async fn a_database_cut_short_is_refused() {
    let dir = used_directory().await;
    let path = dir.path().join("conveyor.db");
    let whole = std::fs::metadata(&path).unwrap().len();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(whole / 2).unwrap();
    let error = Embedded::open(dir.path(), NOW).unwrap_err();
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
}

#[tokio::test]
async fn a_newer_layout_is_refused_and_left_alone() {
    let dir = used_directory().await;
    let database = rusqlite::Connection::open(dir.path().join("conveyor.db")).unwrap();
    database.pragma_update(None, "user_version", 99).unwrap();
    drop(database);
    let before = contents(dir.path());
    let error = Embedded::open(dir.path(), NOW).unwrap_err();
    assert!(matches!(error, OpenError::Newer { found: 99, .. }), "{error}");
    assert_eq!(contents(dir.path()), before);
}

#[test]
fn another_programs_database_is_refused() {
    let dir = TempDir::new().unwrap();
    let database = rusqlite::Connection::open(dir.path().join("conveyor.db")).unwrap();
    database.execute_batch("CREATE TABLE theirs (x)").unwrap();
    drop(database);
    let before = contents(dir.path());
    assert!(matches!(Embedded::open(dir.path(), NOW).unwrap_err(), OpenError::NotOurs { .. }));
    assert_eq!(contents(dir.path()), before);
}

/// Bytes of an earlier release, read and added to by this one.
#[tokio::test]
async fn an_older_layout_is_brought_up_to_date() {
    let dir = TempDir::new().unwrap();
    let database = rusqlite::Connection::open(dir.path().join("conveyor.db")).unwrap();
    let layout = include_str!("../../schemas/embedded/0001.sql");
    database.execute_batch(layout).unwrap();
    database.execute_batch(include_str!("layout1_rows.sql")).unwrap();
    database.pragma_update(None, "application_id", 0x434F_4E56).unwrap();
    database.pragma_update(None, "user_version", 1).unwrap();
    drop(database);
    for _ in 0..2 {
        let store = Embedded::open(dir.path(), NOW).unwrap().backend().store;
        let job: conveyor_domain::JobId = "01M7HM8B3WQEJPSCCNTAWG13AA".parse().unwrap();
        let runs = store.runs(job, None, 9).await.unwrap();
        assert_eq!(runs.len(), 1);
        let (run, stats) = (&runs[0].run, &runs[0].stats);
        assert_eq!((run.status, run.ingest, stats.total), (conveyor_domain::RunStatus::Completed, None, 2));
        assert_eq!(stats.counts.successful, 2);
        assert!(store.events(job, 0, 9).await.unwrap().is_empty());
    }
    let store = Embedded::open(dir.path(), NOW).unwrap().backend().store;
    let open: conveyor_domain::JobId = "01M7HM8BM3C82ECF1F0JT3NM7W".parse().unwrap();
    let added = store.add_tasks(open, World::inputs(1), true, 10, NOW).await.unwrap();
    assert_eq!(added.view.latest.stats.total, 1);
    assert_eq!(store.events(open, 0, 9).await.unwrap().len(), 3, "added, closed, resumed");
}
