//! Of a run whose rows may be gone by their age nothing is made anew: they were done and counted.

use super::world::{self, World};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

const LINES: usize = 600;
/// Rows are kept for thirty days; a day earlier nobody relies on them.
const FRESH: &str = "28.9";
const OLD: &str = "29.1";

/// Everything that a rebuild could change.
fn rows(dir: &Path) -> Vec<String> {
    let database = world::database(dir);
    let query = "SELECT 'task ' || task_key || ' ' || status FROM tasks
        UNION ALL SELECT 'run ' || status || ' ' || total || ' ' || paused || ' ' || updated_ms FROM runs
        UNION ALL SELECT 'counter ' || successful || ' ' || bad_target || ' ' || other FROM counters
        UNION ALL SELECT 'job' FROM jobs
        UNION ALL SELECT 'message' FROM messages
        ORDER BY 1";
    let mut statement = database.prepare(query).unwrap();
    let found = statement.query_map([], |row| row.get(0)).unwrap();
    found.map(Result::unwrap).collect()
}

fn check_refused(world: &World) {
    let before = rows(world.dir.path());
    for flags in [&["--dry-run"][..], &[]] {
        let problem = world.refused(flags);
        assert_eq!(problem["code"], "not_rebuildable", "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains("past their time"), "{problem}");
    }
    assert_eq!(rows(world.dir.path()), before, "nothing is changed");
}

/// Makes a moment of the run so many days older than now.
fn days_ago(world: &World, column: &str, days: &str) {
    world.sql(&format!("UPDATE runs SET {column} = (unixepoch() - {days} * 86400) * 1000;"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_may_be_gone_by_their_age_are_not_made_anew() {
    let all = world::accepted(LINES);
    let world = World::drained(LINES, all).await;
    world.sql("DELETE FROM tasks WHERE task_key % 2 = 0;");
    days_ago(&world, "updated_ms", OLD);
    check_refused(&world);

    // Until then they are.
    days_ago(&world, "updated_ms", FRESH);
    let report = world.rebuild(&[]);
    assert_eq!((&report["rows"]["total"], &report["rows"]["missing"]), (&json!(all), &json!(0)), "{report}");
    // Nor is anything given up as lost then, or a counter corrected, if all rows are there.
    days_ago(&world, "updated_ms", OLD);
    world.sql("UPDATE tasks SET status = 0 WHERE task_key % 3 = 0; UPDATE counters SET successful = successful + 1;");
    check_refused(&world);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_go_with_their_run_and_one_that_goes_on_can_be_of_any_age() {
    let world = World::drained(LINES, LINES / 2).await;
    world.sql("DELETE FROM tasks WHERE task_key % 2 = 0; DELETE FROM messages;");
    days_ago(&world, "created_ms", "400");
    let report = world.rebuild(&[]);
    assert_eq!(report["rows"]["missing"], 0, "{report}");
    world.check_completes().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_of_which_only_objects_are_left_is_not_begun_again_after_a_month() {
    let world = World::drained(LINES, LINES / 2).await;
    world.lose_database();
    let path = world.dir.path().join("blobs/jobs").join(&world.job).join("accepted");
    let mut accepted: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let created = accepted["created_ms"].as_i64().unwrap();
    let mut created_days_ago = |days: f64| {
        let age = i64::try_from(Duration::from_secs_f64(days * 86_400.0).as_millis()).unwrap();
        accepted["created_ms"] = json!(created - age);
        std::fs::write(&path, accepted.to_string()).unwrap();
    };
    // Opening it makes it: empty.
    world.serve().kill();
    created_days_ago(OLD.parse().unwrap());
    check_refused(&world);
    created_days_ago(FRESH.parse().unwrap());
    assert_eq!(world.rebuild(&["--resume"])["results"]["restored"], world.with_bodies());
    world.check_completes().await;
}
