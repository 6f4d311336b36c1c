//! What becomes of damage that no port can do, and of what only later versions will write: made with SQL.

use crate::on_disk::{NOW, OnDisk};
use conveyor_domain::job::record::Expected;
use conveyor_domain::repair::proof::drift;
use conveyor_domain::schedule::calendar::{Interval, Rule, Unit};
use conveyor_domain::{
    Command, Entropy, FailureClass, JobId, JobSchedule, JobSpec, JobStatus, Record, RecordKey, RecordKind,
    RecordVersion, RecordWrite, Refusal, RunId, RunStatus, Schedule, Storage, Sums, lifecycle, limits,
};
use conveyor_store::conformance::{Harness, World, success};
use conveyor_store::port::{
    Mark, Removal, RunKey, RunsQuery, StartRun, StatusFilter, Submission, Tally, TasksQuery,
};
use conveyor_store::{Error, clock_watch};
use rusqlite::{Connection, TransactionBehavior, params};
use std::sync::Arc;

fn database(disk: &OnDisk) -> Connection {
    Connection::open(disk.dir.path().join("conveyor.db")).unwrap()
}

async fn tally(world: &World, key: RunKey) -> Tally {
    world.backend.store.tally(key, false).await.unwrap().unwrap()
}

/// Changes the counters with a worker in the middle of its work. Returns by how much the sum of successes moved.
fn damage(database: &mut Connection, key: RunKey, statement: &str) -> i64 {
    let at_once = database.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let sum = || {
        let sql = "SELECT coalesce(sum(successful), 0) FROM counters
            WHERE run_key = (SELECT run_key FROM runs WHERE run_id = ?1)";
        at_once.query_row(sql, [key.run.to_bytes()], |row| row.get::<_, i64>(0)).unwrap()
    };
    let before = sum();
    let changed = at_once
        .execute(
            &format!("{statement} WHERE run_key = (SELECT run_key FROM runs WHERE run_id = ?1)"),
            [key.run.to_bytes()],
        )
        .unwrap();
    assert_eq!(changed, 1, "one worker, one counter");
    let moved = sum() - before;
    at_once.commit().unwrap();
    moved
}

/// The damage is found to the last task, mended once, and leaves nothing behind, while the worker never stops.
async fn is_mended(statement: &str) {
    const TASKS: u32 = 150;
    let disk = OnDisk::new();
    let world = Arc::new(World::new(disk.backend()));
    let key = world.submit(false, TASKS).await;
    for index in 0..20 {
        world.finish(key, index, success()).await;
    }
    let worker = {
        let world = world.clone();
        tokio::spawn(async move {
            for index in 20..TASKS {
                world.finish(key, index, success()).await;
            }
        })
    };
    let moved = damage(&mut database(&disk), key, statement);
    assert_ne!(moved, 0);
    let missing = Sums { successful: -moved, ..Sums::default() };
    let mut found = tally(&world, key).await;
    for _ in 0..3 {
        assert_eq!(drift(&found.rows, &found.counters), missing, "{statement}: {found:?}");
        let counts = world.view(key).await.latest_run().stats.counts;
        assert_eq!(counts.failed_total(), 0, "{statement}: what is below zero is not shown");
        found = tally(&world, key).await;
    }
    let store = &world.backend.store;
    assert!(store.correct(key, missing, found.revision, NOW).await.unwrap());
    assert!(!store.correct(key, missing, found.revision, NOW).await.unwrap(), "once");
    let mut looks = 0;
    while !worker.is_finished() || looks == 0 {
        let found = tally(&world, key).await;
        assert!(drift(&found.rows, &found.counters).is_zero(), "{statement}: {found:?}");
        looks += 1;
    }
    worker.await.unwrap();
    let done = store.apply(key.job, Command::Drained, NOW).await.unwrap();
    assert_eq!(done.latest_run().run.status, RunStatus::Completed);
    assert_eq!(done.latest_run().stats.counts.successful, TASKS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_counter_is_mended() {
    is_mended("DELETE FROM counters").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counter_that_says_ten_million_is_mended() {
    is_mended("UPDATE counters SET successful = 10000000").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counter_below_zero_is_mended() {
    is_mended("UPDATE counters SET successful = -5").await;
}

#[tokio::test]
async fn a_counter_that_holds_no_number_is_mended() {
    let disk = OnDisk::new();
    let world = World::new(disk.backend());
    let key = world.submit(false, 3).await;
    world.finish(key, 0, success()).await;
    for nonsense in ["'abc'", "9223372036854775807"] {
        let statement = format!("UPDATE counters SET blocked = {nonsense} WHERE revision = 0");
        assert_eq!(database(&disk).execute(&statement, []).unwrap(), 1);
        // Whatever is left after the first correction of a number that no sum can hold exactly goes with the next.
        for _ in 0..3 {
            let found = tally(&world, key).await;
            let missing = drift(&found.rows, &found.counters);
            assert!(world.backend.store.correct(key, missing, found.revision, NOW).await.unwrap());
        }
        let found = tally(&world, key).await;
        assert!(drift(&found.rows, &found.counters).is_zero(), "{nonsense}: {found:?}");
        assert_eq!(world.view(key).await.latest_run().stats.counts.completed(), 1);
    }
}

/// A later run of the same job, of which only a part is new: no command of this version makes one.
fn later_run(disk: &OnDisk, key: RunKey, entropy: &Entropy) -> RunKey {
    let database = database(disk);
    let run = RunId::new(NOW, entropy);
    let sources = format!("[\"{}\"]", key.run);
    let doc = r#"{"inherited": {"successful": 1, "failed": [0, 0, 0, 0, 0, 0, 0]}}"#;
    let inserted = database
        .execute(
            "INSERT INTO runs (run_id, job_id, sequence, status, total, next_index, latched, id_seed, created_ms,
                updated_ms, sources, doc)
             SELECT ?1, job_id, 2, 'running', 0, 0, 0, id_seed, created_ms, updated_ms, ?2, ?4 FROM runs WHERE run_id = ?3",
            params![run.to_bytes(), sources, key.run.to_bytes(), doc],
        )
        .unwrap();
    let moved = database
        .execute(
            "UPDATE jobs SET latest_run_key = (SELECT run_key FROM runs WHERE run_id = ?1) WHERE job_id = ?2",
            [run.to_bytes(), key.job.to_bytes()],
        )
        .unwrap();
    assert_eq!((inserted, moved), (1, 1));
    RunKey { job: key.job, run }
}

/// The template of a scheduled job was a hidden run.
#[tokio::test]
async fn a_job_that_an_earlier_version_scheduled_has_no_run_until_it_fires() {
    let disk = OnDisk::new();
    let world = World::new(disk.backend());
    let key = world.submit(false, 2).await;
    let schedule = serde_json::json!({
        "schedule": {"rate": {"every": 5, "unit": "minute"}}, "anchor": 7, "template": key.run,
    });
    let database = database(&disk);
    let sql = "UPDATE jobs SET status = 'closed', doc = json_set(doc, '$.schedule', json(?1))";
    assert_eq!(database.execute(sql, [schedule.to_string()]).unwrap(), 1);
    let sql = "UPDATE runs SET sequence = 0, status = 'stopped', queue_removed = 1";
    assert_eq!(database.execute(sql, []).unwrap(), 1);
    let store = &world.backend.store;
    let view = world.view(key).await;
    assert_eq!((view.job.latest_run, view.latest), (key.run, None));
    assert_eq!(store.run(key.job, key.run).await.unwrap(), None);
    let query = TasksQuery { key, filter: StatusFilter::All, after: None, limit: 9, max_bytes: usize::MAX };
    assert_eq!(store.tasks(query).await.unwrap().len(), 2);
    let (run, first) = view.job.spec.schedule.as_ref().unwrap().run_of_template(
        RunId::new(NOW, &world.entropy),
        key.run,
        None,
    );
    let start = StartRun { job: key.job, run, tasks: Vec::new(), log: Some(first), once: None };
    let begun = store.start_run(start, NOW).await.unwrap();
    assert_eq!((begun.latest_run().run.sequence, begun.latest_run().run.id_seed), (1, key.run));
}

#[tokio::test]
async fn the_row_of_a_template_is_as_earlier_versions_wrote_it() {
    let disk = OnDisk::new();
    let world = World::new(disk.backend());
    let (job, template) = (JobId::new(NOW, &world.entropy), RunId::new(NOW, &world.entropy));
    let rule = Rule::Rate(Interval::new(1, Unit::Minute).unwrap());
    let schedule = JobSchedule::new(Schedule { rule, timezone: None }, template, None, NOW);
    let spec = JobSpec { schedule: Some(schedule), ..JobSpec::default() };
    let job = lifecycle::scheduled(job, template, world.caller, spec, 3, NOW);
    let tasks = (0..).zip(World::inputs(3)).collect();
    let submission = Submission { job, run: None, tasks, list: None, once: None };
    world.backend.store.submit(submission).await.unwrap();
    let sql = "SELECT count(*) FROM runs WHERE run_id = ?1 AND id_seed = ?1 AND sequence = 0
        AND status = 'stopped' AND total = 3 AND next_index = 3 AND latched = 1 AND failure IS NULL
        AND created_ms = ?2 AND updated_ms = ?2 AND ingest IS NULL AND paused = 0 AND sources = '[]'
        AND storage = 'kept' AND doc = '{}' AND queue_removed = 1";
    let found = database(&disk).query_row(sql, params![template.to_bytes(), NOW.0], |row| row.get(0));
    assert_eq!(found, Ok(1));
}

#[tokio::test]
async fn a_run_stays_while_a_later_one_points_to_its_results() {
    let disk = OnDisk::new();
    let world = World::new(disk.backend());
    let first = world.submit(true, 1).await;
    let store = &world.backend.store;
    let later = later_run(&disk, first, &world.entropy);
    let refused = store.delete_run(first, NOW).await;
    assert_eq!(refused, Err(Error::Refused(Refusal::RunHasDescendants)));
    let runs = store.runs(RunsQuery::newest(first.job, 9)).await.unwrap().rows;
    assert_eq!(runs.iter().map(|view| view.run.id).collect::<Vec<_>>(), [later.run, first.run]);
    assert_eq!(runs[0].run.sources, [first.run]);
    assert_eq!(store.delete_run(later, NOW).await.unwrap().run.status, RunStatus::Deleted);
    assert_eq!(world.view(first).await.job.status, JobStatus::Closed, "it was the latest");
    assert_eq!(store.delete_run(first, NOW).await.unwrap().run.status, RunStatus::Deleted);
}

#[tokio::test]
async fn an_earlier_run_goes_without_its_job() {
    let disk = OnDisk::new();
    let world = World::new(disk.backend());
    let first = world.submit(true, 1).await;
    let store = &world.backend.store;
    let later = later_run(&disk, first, &world.entropy);
    let forgotten = database(&disk).execute("UPDATE runs SET sources = '[]'", []).unwrap();
    assert_eq!(forgotten, 2);
    store.delete_run(first, NOW).await.unwrap();
    assert_eq!(world.view(first).await.job.status, JobStatus::Open, "tasks go to the latest run");
    while store.remove_rows(Removal::Run(first), 9).await.unwrap() > 0 {}
    store.mark(first, Mark::RowsGone(Storage::Removed)).await.unwrap();
    let runs = store.runs(RunsQuery::newest(first.job, 9)).await.unwrap().rows;
    assert_eq!(runs.iter().map(|view| view.run.id).collect::<Vec<_>>(), [later.run]);
    assert_eq!(store.run(first.job, first.run).await.unwrap(), None);
    let added = store.add_tasks(first.job, World::inputs(2), true, 10, None, NOW).await.unwrap();
    assert_eq!((added.latest_run().run.id, added.latest_run().stats.total), (later.run, 2));
}

#[tokio::test]
async fn rows_that_do_not_say_why_they_failed_are_proved_all_the_same() {
    let disk = OnDisk::new();
    let world = World::new(disk.backend());
    let key = world.submit(false, 3).await;
    let failed = |class| conveyor_domain::Outcome::Failed {
        class,
        problem: conveyor_domain::Problem::new(503, "http_503", "The gateway answered 503"),
    };
    world.finish(key, 0, failed(FailureClass::Blocked)).await;
    world.finish(key, 1, failed(FailureClass::Timeout)).await;
    // As earlier versions left them.
    assert_eq!(database(&disk).execute("UPDATE tasks SET class = NULL WHERE status = 3", []).unwrap(), 2);
    let found = tally(&world, key).await;
    assert_eq!((found.rows.unclassified, found.rows.failed(), found.rows.pending), (2, 2, 1));
    assert!(drift(&found.rows, &found.counters).is_zero(), "{found:?}");
    let task = world.backend.store.task(key, World::task(key, 0)).await.unwrap().unwrap();
    assert_eq!(task.class, None);
    assert!(world.backend.store.task(key, World::task(key, 1)).await.unwrap().unwrap().error.is_some());
}

/// The row, not only what it says: what goes by it stops, and the record begins anew.
#[tokio::test]
async fn a_clock_record_that_cannot_be_read_halts_removal_for_an_hour_and_not_for_ever() {
    let disk = OnDisk::new();
    let store = disk.backend().store;
    clock_watch::observe(store.as_ref(), NOW).await.unwrap();
    for column in ["version", "due_ms", "doc"] {
        let garbage = format!("UPDATE records SET {column} = x'ff' WHERE kind = 'clock'");
        assert_eq!(database(&disk).execute(&garbage, []).unwrap(), 1);
        let mut now = NOW;
        let removal_time = clock_watch::removal_time(store.as_ref(), now).await.unwrap();
        assert!(removal_time < NOW, "{column}: nothing is old by it");
        while now <= NOW.after(limits::CLOCK_HELD) {
            clock_watch::observe(store.as_ref(), now).await.unwrap();
            now = now.after(limits::CLOCK_SEEN_EVERY);
        }
        assert_eq!(clock_watch::removal_time(store.as_ref(), now).await.unwrap(), now, "{column}");
        assert_eq!(database(&disk).execute(&garbage, []).unwrap(), 1);
        clock_watch::confirm(store.as_ref(), NOW).await.unwrap();
        assert_eq!(clock_watch::removal_time(store.as_ref(), NOW).await.unwrap(), NOW, "{column}: confirmed");
    }
}

#[tokio::test]
async fn damaged_idempotency_keys_and_budgets_do_not_keep_the_process_from_starting() {
    let disk = OnDisk::new();
    let (backend, entropy) = (disk.backend(), Entropy::from_number(1));
    for (id, doc) in [("damaged", "garbage"), ("running", "running"), ("done", "done")] {
        let key = RecordKey::new(RecordKind::Idempotency, "caller", id);
        let record = Record::new(key, RecordVersion::new(&entropy), &serde_json::json!({ "state": doc }));
        assert!(backend.store.write_record(RecordWrite::put(record, Expected::Absent)).await.unwrap());
    }
    let garbage = "UPDATE records SET doc = '{garbage' WHERE id = 'damaged'";
    assert_eq!(database(&disk).execute(garbage, []).unwrap(), 1);
    let budget = "INSERT INTO budgets (scope, doc) VALUES ('job:x', x'ff')";
    assert_eq!(database(&disk).execute(budget, []).unwrap(), 1);
    let crashed = disk.crash().await;
    let store = crashed.backend().store;
    let is_there = async |id: &str| {
        let key = RecordKey::new(RecordKind::Idempotency, "caller", id);
        store.record(&key).await.unwrap().is_some()
    };
    assert!(is_there("damaged").await && is_there("done").await && !is_there("running").await);
}

#[tokio::test]
async fn a_list_whose_log_cannot_be_read_does_not_hide_those_behind_it() {
    let disk = OnDisk::new();
    let world = World::new(disk.backend());
    let mut keys = Vec::new();
    for _ in 0..3 {
        let upload = world.upload().await;
        let staged = world.staged("list", b"https://example.com/\n").await;
        world.backend.store.put_staged(upload.id, staged.clone(), None, world.now()).await.unwrap();
        keys.push(world.accept(&upload, &staged).await);
    }
    let garbage = "UPDATE events SET at_ms = 'garbage' WHERE run_id = ?1";
    assert!(database(&disk).execute(garbage, [keys[0].run.to_bytes()]).unwrap() > 0);
    let page = world.backend.store.ingesting_runs(None, 2).await.unwrap();
    assert_eq!(page.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), keys[1..]);
}
