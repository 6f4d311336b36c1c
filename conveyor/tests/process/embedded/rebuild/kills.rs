//! A rebuild that is killed at any moment, and then repeated, comes to the same end.

use super::world::{self, World};
use crate::support::{self, Client, Process, sized};
use conveyor_domain::Entropy;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::Instant;

/// Rebuilds that are killed at work before the test is content, and those that may be tried for it.
const KILLS: usize = 6;
const TRIES_MAX: usize = 60;
const LINES: usize = 2_000;
const DONE: usize = 500;

/// What a rebuild has to come to, in the words of the database.
fn end(dir: &Path) -> Vec<String> {
    let database = world::database(dir);
    let mut lines = Vec::new();
    for query in [
        "SELECT task_key || ' ' || status || ' ' || input || ' ' || coalesce(result, '') FROM tasks ORDER BY task_key",
        "SELECT status || ' ' || total || ' ' || next_index || ' ' || latched || ' ' || paused || ' ' || ingest FROM runs",
        "SELECT sum(successful) || ' ' || sum(bad_target + other) FROM counters",
        "SELECT count(*) FROM (SELECT 1 FROM upload_claims)",
    ] {
        let mut statement = database.prepare(query).unwrap();
        let rows = statement.query_map([], |row| {
            let value: rusqlite::types::Value = row.get(0)?;
            Ok(format!("{value:?}"))
        });
        lines.extend(rows.unwrap().map(Result::unwrap));
    }
    lines
}

fn copy(from: &Path) -> TempDir {
    let to = TempDir::new().unwrap();
    let copied = Command::new("cp").arg("-a").arg(from.join(".")).arg(to.path()).status();
    assert!(copied.unwrap().success());
    to
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_that_is_killed_is_gone_on_with() {
    let (lines, kills) = (sized(LINES, 11_000), sized(KILLS, 3 * KILLS));
    let world = World::drained(lines, sized(DONE, 3_000)).await;
    world.lose_database();
    let untouched = copy(world.dir.path());
    // What an undisturbed one comes to, and how long it takes: the first kills are spread over that time.
    let started = Instant::now();
    world.rebuild(&[]);
    let mut latest = started.elapsed();
    let expected = end(world.dir.path());
    let chance = Entropy::from_number(18);
    let (mut killed, mut tried) = (0, 0);
    while killed < kills {
        let dir = copy(untouched.path());
        // Up to three kills of one rebuild, each of what the one before left.
        for _ in 0..=tried % 3 {
            tried += 1;
            let mut command = world::rebuild_command(dir.path(), &world.job, &[]);
            let mut child = Process::spawn(command.stdout(Stdio::null()).stderr(Stdio::null()));
            world::begins(dir.path(), &world.job, || child.has_ended()).await;
            let most = u64::try_from(latest.as_micros()).unwrap();
            tokio::time::sleep(Duration::from_micros(chance.below(most + 1))).await;
            let at_work = !child.has_ended();
            child.kill();
            killed += usize::from(at_work);
            if !at_work {
                // It came too late, and another would find nothing to do: earlier from now on.
                latest = latest * 3 / 4;
                break;
            }
        }
        assert!(tried < TRIES_MAX, "only {killed} of {tried} were at work when they were killed");
        let report = world::report(&support::run(world::rebuild_command(dir.path(), &world.job, &[])));
        assert_eq!(report["run"]["paused"], true, "after {killed} kills: {report}");
        let found = end(dir.path());
        let differs = expected.iter().zip(&found).find(|(a, b)| a != b);
        assert_eq!(differs, None, "after {killed} kills");
        assert_eq!(found.len(), expected.len(), "after {killed} kills");
        let left = dir.path().join("blobs/jobs").join(&world.job).join("rebuild");
        assert!(!left.exists(), "after {killed} kills: a note was left behind");
        if killed >= kills {
            let (job, before) = (world.job.clone(), world.before.clone());
            let world = World { dir, gateway: world.gateway, job, before };
            let server = world.serve();
            let resume = format!("/v1/jobs/{}/resume", world.job);
            assert_eq!(Client::new(&server).post(&resume).await.0, 200);
            server.stop().await;
            world.check_completes().await;
            return;
        }
    }
}
