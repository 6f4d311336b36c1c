//! A rebuild that is killed at any moment, and then repeated, comes to the same end.

use crate::support;
use crate::world::{self, World};
use conveyor_domain::Entropy;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::Instant;

const ROUNDS: u64 = 12;
const LINES: usize = 11_000;
const DONE: usize = 3_000;

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
    let world = World::drained(LINES, DONE).await;
    world.lose_database();
    let untouched = copy(world.dir.path());
    let started = Instant::now();
    world.rebuild(&[]);
    let took = started.elapsed();
    let expected = end(world.dir.path());
    let chance = Entropy::from_number(18);
    let mut killed = 0;
    for round in 0..ROUNDS {
        let dir = copy(untouched.path());
        for _ in 0..=round % 3 {
            let mut command = world::rebuild_command(dir.path(), &world.job, &[]);
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let moment = chance.below(u64::try_from(took.as_micros()).unwrap());
            tokio::time::sleep(Duration::from_micros(moment)).await;
            killed += u32::from(child.try_wait().unwrap().is_none());
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let report = world::report(&support::run(world::rebuild_command(dir.path(), &world.job, &[])));
        assert_eq!(report["run"]["paused"], false, "round {round}: {report}");
        let found = end(dir.path());
        let differs = expected.iter().zip(&found).find(|(a, b)| a != b);
        assert_eq!(differs, None, "round {round}");
        assert_eq!(found.len(), expected.len(), "round {round}");
        let left = dir.path().join("blobs/jobs").join(&world.job).join("rebuild");
        assert!(!left.exists(), "round {round}: a note was left behind");
        if round == ROUNDS - 1 {
            let world =
                World { dir, gateway: world.gateway, job: world.job.clone(), before: world.before.clone() };
            world.check_completes().await;
            break;
        }
    }
    // Otherwise the test showed nothing.
    assert!(killed >= 5, "{killed} were still at work when they were killed");
}
