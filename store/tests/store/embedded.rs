//! Data directories: what is refused and left alone, and what earlier versions left.

use crate::on_disk::{NOW, OnDisk};
use conveyor_domain::dispatch::grant::{Ask, Change, Limits, Scope};
use conveyor_domain::job::beside::live_job_key;
use conveyor_domain::job::record::Expected;
use conveyor_domain::repair::proof::drift;
use conveyor_domain::{
    CallerId, Command, Entropy, JobId, Rate, Record, RecordKey, RecordKind, RecordVersion, RecordWrite,
    Storage, Timestamp, WorkerId, limits,
};
use conveyor_store::conformance::{Harness, World};
use conveyor_store::embedded::{Embedded, OpenError};
use conveyor_store::port::{ChangeCursor, Chore, Mark, Removal, RunKey, RunsQuery, StatusFilter, TasksQuery};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use tempfile::TempDir;

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
        assert_eq!(world.view(key).await.latest_run().stats.total, 2);
    }
}

/// The writer takes operations in their order: without turns, whoever comes last waits for all.
#[tokio::test]
async fn long_submits_of_one_caller_are_not_all_in_front_of_the_others() {
    const LONG: usize = 40;
    let disk = OnDisk::new();
    let world = World::new(disk.backend());
    let other = World { caller: CallerId::from_bytes([9; 16]), ..World::new(disk.backend()) };
    let other = World { entropy: Entropy::from_number(99), ..other };
    let rows = u32::try_from(limits::HEAVY_WRITE_ROWS).unwrap();
    let mut submits: Vec<_> = (0..LONG).map(|_| Box::pin(world.submit(false, rows))).collect();
    // Before the other one, each of them waits for its turn or is in the writer's queue.
    submits.retain_mut(|submit| submit.as_mut().now_or_never().is_none());
    let mut done = LONG - submits.len();
    let mut long: FuturesUnordered<_> = submits.into_iter().collect();
    let mut last = pin!(other.submit(false, rows));
    // It is in line before any of the long ones is polled again.
    if last.as_mut().now_or_never().is_none() {
        loop {
            tokio::select! {
                biased;
                _ = &mut last => break,
                Some(_) = long.next() => done += 1,
            }
        }
    }
    assert!(done <= LONG / 2, "{done} of {LONG} were in front");
    while long.next().await.is_some() {}
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
    let layout = include_str!("../../../schemas/embedded/0001.sql");
    database.execute_batch(layout).unwrap();
    database.execute_batch(include_str!("layout1_rows.sql")).unwrap();
    database
        .execute_batch("INSERT INTO grants SELECT job_id, '{\"version\":1,\"holders\":{}}' FROM jobs")
        .unwrap();
    database.pragma_update(None, "application_id", 0x434F_4E56).unwrap();
    database.pragma_update(None, "user_version", 1).unwrap();
    drop(database);
    for _ in 0..2 {
        let store = Embedded::open(dir.path(), NOW).unwrap().backend().store;
        let job: conveyor_domain::JobId = "01M7HM8B3WQEJPSCCNTAWG13AA".parse().unwrap();
        let runs = store.runs(RunsQuery::newest(job, 9)).await.unwrap().rows;
        assert_eq!(runs.len(), 1);
        let (run, stats) = (&runs[0].run, &runs[0].stats);
        assert_eq!((run.status, run.ingest, stats.total), (conveyor_domain::RunStatus::Completed, None, 2));
        assert!(!run.paused);
        assert_eq!((run.storage, &*run.sources), (Storage::Kept, &[][..]));
        let tally = store.tally(RunKey { job, run: run.id }, true).await.unwrap().unwrap();
        assert!(drift(&tally.rows, &tally.counters).is_zero(), "{tally:?}");
        assert_eq!((tally.rows.all(), tally.objects.left(), tally.revision), (2, 2, 0));
        assert_eq!(stats.counts.successful, 2);
        assert!(store.events(job, 0, 9).await.unwrap().is_empty());
        for (since, runs) in [(run.updated, 2), (Timestamp(run.updated.0 + 1), 1)] {
            assert_eq!(store.changed_runs(Some(ChangeCursor(since)), NOW).await.unwrap().gone.len(), runs);
        }
    }
    let store = Embedded::open(dir.path(), NOW).unwrap().backend().store;
    let open: conveyor_domain::JobId = "01M7HM8BM3C82ECF1F0JT3NM7W".parse().unwrap();
    let owner = store.job(None, open).await.unwrap().unwrap().job.caller;
    assert!(store.record(&live_job_key(owner, open)).await.unwrap().is_some(), "it counts against quotas");
    let added = store.add_tasks(open, World::inputs(1), true, 10, None, NOW).await.unwrap();
    assert_eq!(added.latest_run().stats.total, 1);
    assert_eq!(store.events(open, 0, 9).await.unwrap().len(), 3, "added, closed, resumed");
}

/// The previous layout, with a row of everything that the new one adds to.
#[tokio::test]
async fn rows_of_layout_three_are_what_they_were() {
    let dir = TempDir::new().unwrap();
    let database = rusqlite::Connection::open(dir.path().join("conveyor.db")).unwrap();
    for layout in [
        include_str!("../../../schemas/embedded/0001.sql"),
        include_str!("../../../schemas/embedded/0002.sql"),
        include_str!("../../../schemas/embedded/0003.sql"),
    ] {
        database.execute_batch(layout).unwrap();
    }
    database.execute_batch(include_str!("layout3_rows.sql")).unwrap();
    database.pragma_update(None, "application_id", 0x434F_4E56).unwrap();
    database.pragma_update(None, "user_version", 3).unwrap();
    drop(database);
    let store = Embedded::open(dir.path(), NOW).unwrap().backend().store;
    let job: JobId = "01M7HM8B3WQEJPSCCNTAWG13AA".parse().unwrap();
    let view = store.job(None, job).await.unwrap().unwrap();
    assert_eq!(view.job.spec.result_ttl_days, None);
    let key = RunKey { job, run: view.job.latest_run };
    let query =
        TasksQuery { key, filter: StatusFilter::Failed, after: None, limit: 9, max_bytes: usize::MAX };
    let failed = store.tasks(query).await.unwrap();
    assert_eq!((failed.len(), failed[0].class), (1, None));
    let tally = store.tally(key, false).await.unwrap().unwrap();
    assert_eq!((tally.rows.unclassified, tally.rows.settled.successful), (1, 1));
    assert!(drift(&tally.rows, &tally.counters).is_zero(), "{tally:?}");
    let ended = Timestamp(view.latest_run().run.updated.0 + 1);
    assert_eq!(store.due(Chore::ExpiredRuns { ended_before: ended }, 9).await.unwrap(), [key.into()]);
    assert_eq!(store.delete_run(key, NOW).await.unwrap().run.status, conveyor_domain::RunStatus::Deleted);
    assert_eq!(store.due(Chore::DeletedRuns, 9).await.unwrap(), [key.into()]);
}

/// The budgets that are stored, by scope.
fn budgets(dir: &Path) -> Vec<String> {
    let database = rusqlite::Connection::open(dir.join("conveyor.db")).unwrap();
    let mut read = database.prepare("SELECT scope FROM budgets ORDER BY scope").unwrap();
    let rows = read.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

fn limits(revision: u32, per_second: f64) -> Limits {
    Limits { revision, max_inflight: Some(4), rate: Some(Rate::new(per_second, Some(1)).unwrap()) }
}

fn ask(world: &World, limits: Limits) -> Ask {
    Ask { worker: world.worker, in_use: 0, want: 4, starts: 1, startable: 1, limits }
}

#[tokio::test]
async fn permits_of_a_dead_process_are_free_at_once() {
    let disk = OnDisk::new();
    let world = World::new(disk.backend());
    for scope in [Scope::Job(JobId::new(NOW, &world.entropy)), Scope::Sweepers] {
        let first = world.backend.coordinator.ask(&scope, ask(&world, limits(0, 1.0)), NOW).await.unwrap();
        assert_eq!((first.permits, first.starts.len()), (4, 1));
        let after = disk.crash().await;
        let other = Ask { worker: WorkerId::new(NOW, &world.entropy), ..ask(&world, limits(0, 1.0)) };
        let second = after.backend().coordinator.ask(&scope, other, NOW).await.unwrap();
        assert_eq!((second.permits, second.starts.len()), (4, 0), "all the permits, and none of the starts");
    }
}

#[tokio::test]
async fn budgets_that_say_nothing_are_not_kept() {
    let disk = OnDisk::new();
    let world = World::new(disk.backend());
    let coordinator = &world.backend.coordinator;
    let site = |n: u32| Scope::Domain(world.caller, format!("{n}.example"));
    for n in 0..20 {
        coordinator.ask(&site(n), ask(&world, limits(0, 1.0)), NOW).await.unwrap();
        coordinator.change(&site(n), Change::GiveBack(world.worker), NOW).await.unwrap();
    }
    assert_eq!(budgets(disk.dir.path()).len(), 20, "a start was taken of each");
    let changed = Scope::Job(world.submit(false, 1).await.job);
    let nobodys = Scope::Job(JobId::new(NOW, &world.entropy));
    coordinator.change(&nobodys, Change::Limits(limits(1, 1.0)), NOW).await.unwrap();
    coordinator.change(&changed, Change::Limits(limits(1, 1.0)), NOW).await.unwrap();
    let later = Timestamp(NOW.0 + 1_000);
    assert_eq!(coordinator.domain_budgets(world.caller, 99, later).await.unwrap(), []);
    for n in 0..6 {
        coordinator.ask(&site(n), ask(&world, limits(0, 1.0)), later).await.unwrap();
    }
    let in_use: Vec<_> = (0..6).map(|n| site(n).to_string()).collect();
    let kept = budgets(disk.dir.path());
    assert_eq!(kept.split_last(), Some((&changed.to_string(), &in_use[..])));
}

#[tokio::test]
async fn a_budget_goes_with_its_job() {
    let disk = OnDisk::new();
    let world = World::new(disk.backend());
    let key = world.submit(false, 1).await;
    let store = &world.backend.store;
    world
        .backend
        .coordinator
        .change(&Scope::Job(key.job), Change::Limits(limits(1, 1.0)), NOW)
        .await
        .unwrap();
    store.apply(key.job, Command::Delete, NOW).await.unwrap();
    while store.remove_rows(Removal::Job(key.job), 9).await.unwrap() > 0 {}
    store.mark(key, Mark::QueueGone).await.unwrap();
    assert_eq!(budgets(disk.dir.path()).len(), 1);
    assert!(store.forget_job(key.job, NOW).await.unwrap());
    assert_eq!(budgets(disk.dir.path()), Vec::<String>::new());
}

#[tokio::test]
async fn a_budget_that_cannot_be_read_keeps_nobody_out() {
    let OnDisk { store, dir } = OnDisk::new();
    let world = World::new(store.backend());
    let scope = Scope::Job(JobId::new(NOW, &world.entropy));
    world.backend.coordinator.ask(&scope, ask(&world, limits(0, 1.0)), NOW).await.unwrap();
    drop((world.backend, store));
    let database = rusqlite::Connection::open(dir.path().join("conveyor.db")).unwrap();
    assert_eq!(database.execute("UPDATE budgets SET doc = '{'", []).unwrap(), 1);
    drop(database);
    let store = Embedded::open(dir.path(), NOW).unwrap();
    assert_eq!(store.backend().coordinator.budget(&scope, NOW).await.unwrap().held(), 0);
}

#[tokio::test]
async fn a_run_that_cannot_be_read_keeps_no_other_from_going_on() {
    let disk = OnDisk::new();
    let world = World::new(disk.backend());
    let mut keys = Vec::new();
    for _ in 0..4 {
        keys.push(world.submit(false, 1).await);
    }
    let database = rusqlite::Connection::open(disk.dir.path().join("conveyor.db")).unwrap();
    let damage = |sql: &str, id: [u8; 16]| assert_eq!(database.execute(sql, [id]).unwrap(), 1);
    damage("UPDATE runs SET failure = '{' WHERE run_id = ?1", keys[0].run.to_bytes());
    damage("UPDATE jobs SET doc = '{' WHERE job_id = ?1", keys[2].job.to_bytes());
    let expected = [keys[1].run, keys[3].run];
    let active = world.backend.store.changed_runs(None, NOW).await.unwrap().active;
    assert_eq!(active.iter().map(|a| a.run.id).collect::<Vec<_>>(), expected);
    let changed = world.backend.store.changed_runs(Some(ChangeCursor(NOW)), NOW).await.unwrap();
    assert_eq!(changed.active.iter().map(|a| a.run.id).collect::<Vec<_>>(), expected);
    assert_eq!(changed.gone, []);
}

/// Whoever carried a request out is dead, and what it did has an answer; the caller need not wait for a lease.
#[tokio::test]
async fn idempotency_keys_of_a_process_that_died_are_free_at_once() {
    let dir = TempDir::new().unwrap();
    let key = |id| RecordKey::new(RecordKind::Idempotency, "owner", id);
    let store = Embedded::open(dir.path(), NOW).unwrap().backend().store;
    for (id, state) in [("begun", "running"), ("done", "done")] {
        let record =
            Record::new(key(id), RecordVersion::from_stored(1), &serde_json::json!({"state": state}));
        assert!(store.write_record(RecordWrite::put(record, Expected::Absent)).await.unwrap());
    }
    drop(store);
    let store = Embedded::open(dir.path(), NOW).unwrap().backend().store;
    assert!(store.record(&key("begun")).await.unwrap().is_none());
    assert!(store.record(&key("done")).await.unwrap().is_some());
}
