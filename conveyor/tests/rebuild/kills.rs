//! A rebuild that is killed at any moment, and then repeated, comes to the same end.

use crate::support::{self, Client};
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
/// Of the time that is left, at most so many hundredths pass before a kill: the end itself is short and easily missed.
const LATEST: u64 = 85;

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
    // How long an undisturbed one takes here and now. The first one reads what no cache holds, so the second counts.
    let mut took = Duration::ZERO;
    for dir in [world.dir.path(), copy(untouched.path()).path()] {
        let started = Instant::now();
        world::report(&support::run(world::rebuild_command(dir, &world.job, &[])));
        took = started.elapsed();
    }
    let expected = end(world.dir.path());
    let chance = Entropy::from_number(18);
    let (mut killed, mut tried) = (0, 0);
    for round in 0..ROUNDS {
        let dir = copy(untouched.path());
        let mut left = took;
        for _ in 0..=round % 3 {
            let mut command = world::rebuild_command(dir.path(), &world.job, &[]);
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            // Early in one round and late in another, whatever chance says.
            let share = (round * LATEST + chance.below(LATEST)) / ROUNDS;
            let moment = left * u32::try_from(share).unwrap() / 100;
            tokio::time::sleep(moment).await;
            let at_work = child.try_wait().unwrap().is_none();
            child.kill().unwrap();
            child.wait().unwrap();
            (killed, tried) = (killed + u32::from(at_work), tried + 1);
            if !at_work {
                // Another would find nothing to do. They are faster by now than they were.
                took = took.min(moment);
                break;
            }
            left -= moment;
        }
        let report = world::report(&support::run(world::rebuild_command(dir.path(), &world.job, &[])));
        assert_eq!(report["run"]["paused"], true, "round {round}: {report}");
        let found = end(dir.path());
        let differs = expected.iter().zip(&found).find(|(a, b)| a != b);
        assert_eq!(differs, None, "round {round}");
        assert_eq!(found.len(), expected.len(), "round {round}");
        let left = dir.path().join("blobs/jobs").join(&world.job).join("rebuild");
        assert!(!left.exists(), "round {round}: a note was left behind");
        if round == ROUNDS - 1 {
            let world =
                World { dir, gateway: world.gateway, job: world.job.clone(), before: world.before.clone() };
            let server = world.serve();
            let resume = format!("/v1/jobs/{}/resume", world.job);
            assert_eq!(Client::new(&server).post(&resume).await.0, 200);
            server.stop().await;
            world.check_completes().await;
            break;
        }
    }
    // Otherwise the test showed nothing.
    assert!(killed >= 5, "{killed} of {tried} were still at work when they were killed");
}
