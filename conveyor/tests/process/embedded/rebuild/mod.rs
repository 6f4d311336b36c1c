//! SPEC 6.18 on the real binary: the database is lost, or rows of it, and `conveyor rebuild` makes them anew from the list
//! and the results, so that nothing that was fetched is fetched again.

mod age;
mod kills;
mod lost;
mod world;

use crate::support::{self, Client, KEY, sized};
use serde_json::json;
use world::World;

/// Short lists are written on the request, long ones are accepted and ingested.
fn short() -> usize {
    sized(600, 3_000)
}

fn half() -> usize {
    short() / 2
}

fn long() -> usize {
    sized(1_500, 11_000)
}

const UNKNOWN: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_database_is_made_anew_and_nothing_is_fetched_twice() {
    for (lines, done) in [(short(), half()), (long(), 400)] {
        let world = World::drained(lines, done).await;
        world.lose_database();
        let report = world.rebuild(&["--resume"]);
        assert_eq!(report["job_made_anew"], true, "the dry run before made nothing: {report}");
        let rows = world::accepted(lines);
        assert_eq!(report["rows"], json!({"total": rows, "written": rows, "missing": 0}), "{report}");
        assert_eq!(report["results"]["restored"], world.with_bodies(), "{report}");
        assert_eq!((&report["outcomes_lost"], &report["counters_corrected"]), (&json!(0), &json!(0)));
        assert_eq!((&report["run"]["status"], &report["run"]["paused"]), (&json!("running"), &json!(false)));
        // Everything is there: once more finds nothing to do.
        let again = world.rebuild(&[]);
        assert_eq!(
            (&again["rows"]["written"], &again["results"]["restored"]),
            (&json!(0), &json!(0)),
            "{again}"
        );
        assert_eq!(again["refs_sent"], 0, "they are there, and a second one would have a task fetched twice");
        world.check_completes().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_rows_are_written_again() {
    let world = World::drained(short(), half()).await;
    world.sql("DELETE FROM tasks; DELETE FROM counters; DELETE FROM messages;");
    let report = world.rebuild(&[]);
    let rows = world::accepted(short());
    assert_eq!(report["job_made_anew"], false, "{report}");
    assert_eq!(report["rows"], json!({"total": rows, "written": rows, "missing": 0}), "{report}");
    assert_eq!(report["results"]["restored"], world.with_bodies(), "{report}");
    assert_eq!((&report["resumed"], &report["run"]["paused"]), (&json!(true), &json!(false)), "{report}");
    world.check_completes().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_that_outlived_their_rows_complete_nothing_early() {
    let world = World::drained(short(), half()).await;
    // With what is restored, they would reach the total.
    let rows = world::accepted(short());
    let too_many = rows - world.with_bodies();
    world.sql(&format!("DELETE FROM tasks; UPDATE counters SET successful = {too_many}, bad_target = 0;"));
    let report = world.rebuild(&[]);
    assert_eq!(report["run"]["status"], "running", "{report}");
    assert!(report["counters_corrected"].as_u64().unwrap() >= too_many as u64, "{report}");
    world.check_completes().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_its_owner_paused_stays_paused() {
    let world = World::drained(short(), half()).await;
    world.sql("DELETE FROM tasks WHERE task_key % 2 = 0; DELETE FROM messages; UPDATE runs SET paused = 1;");
    let report = world.rebuild(&[]);
    assert_eq!((&report["resumed"], &report["run"]["paused"]), (&json!(false), &json!(true)), "{report}");
    assert!(report["refs_sent"].as_u64().unwrap() > 0, "{report}");
    let server = world.serve();
    let client = Client::new(&server);
    assert_eq!(client.job(&world.job).await["latest_run"]["pause_state"], "paused");
    assert_eq!(client.post(&format!("/v1/jobs/{}/resume", world.job)).await.0, 200);
    server.stop().await;
    world.check_completes().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completed_run_stays_completed_or_is_completed_again() {
    let all = world::accepted(short());
    let world = World::drained(short(), all).await;
    let calls = world.gateway.calls();
    world.sql("DELETE FROM tasks; DELETE FROM counters;");
    let report = world.rebuild(&[]);
    let lost = all - world.with_bodies();
    assert_eq!(report["outcomes_lost"], lost, "{report}");
    assert_eq!(report["run"]["status"], "completed", "{report}");
    let server = world.serve();
    let client = Client::new(&server);
    for (before, after) in world.before.iter().zip(world::seen(&client, &world.job).await) {
        match before.has_body() {
            true => assert_eq!(after, *before),
            false => assert_eq!((&*after.status, after.error.as_deref()), ("failed", Some("outcome_lost"))),
        }
    }
    world.check_audit(&client).await;
    server.stop().await;
    // Reset by hand, as the audit says: what is stored of them is given back.
    world.sql("UPDATE tasks SET status = 0, result = NULL WHERE status = 2 AND task_key % 3 = 0");
    let report = world.rebuild(&[]);
    assert!(report["results"]["restored"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(
        (&report["outcomes_lost"], &report["run"]["status"]),
        (&json!(0), &json!("completed")),
        "{report}"
    );
    let server = world.serve();
    world.check_audit(&Client::new(&server)).await;
    assert_eq!(world.gateway.calls(), calls, "nothing is fetched of a run that has ended");
    server.stop().await;

    // That it had completed was in the database.
    world.lose_database();
    let report = world.rebuild(&["--resume"]);
    assert_eq!(
        (&report["outcomes_lost"], &report["run"]["status"]),
        (&json!(0), &json!("running")),
        "{report}"
    );
    world.check_completes().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_rebuilt_is_left_alone() {
    let world = World::drained(short(), 10).await;
    world.lose_database();
    let list = world::staged_list(world.dir.path());
    let kept = std::fs::read(&list).unwrap();
    std::fs::write(&list, [&kept[..], b"https://example.com/one-more\n"].concat()).unwrap();
    assert_eq!(world.refused(&[])["code"], "source_changed");
    std::fs::remove_file(&list).unwrap();
    assert_eq!(world.refused(&[])["code"], "source_missing");
    std::fs::write(&list, &kept).unwrap();
    assert_eq!(world.refused(&["--run", UNKNOWN])["code"], "not_rebuildable");
    let dry = support::run(world::rebuild_command(world.dir.path(), &world.job, &["--dry-run"]));
    assert_eq!(world::report(&dry)["job_made_anew"], true, "nothing was made");

    let server = world.serve();
    let client = Client::new(&server);
    let inline = client.submit(&support::urls("inline", 3)).await;
    let deleted = client.submit(&support::urls("deleted", 3)).await;
    assert_eq!(client.delete(&format!("/v1/jobs/{deleted}")).await.0, 202);
    server.stop().await;
    for job in [&inline, &deleted, &UNKNOWN.to_owned()] {
        let output = support::run(world::rebuild_command(world.dir.path(), job, &[]));
        assert_eq!(output.status.code(), Some(1));
        let problem: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
        assert_eq!(problem["code"], "not_rebuildable", "{problem}");
    }
    for name in ["nowhere", "empty"] {
        let dir = world.dir.path().join(name);
        if name == "empty" {
            std::fs::create_dir(&dir).unwrap();
        }
        for flags in [&["--dry-run"][..], &[]] {
            let output = support::run(world::rebuild_command(&dir, &inline, flags));
            assert_eq!(world::refusal(&output)["code"], "not_found");
            let made = std::fs::read_dir(&dir).map_or(0, Iterator::count);
            assert_eq!((made, dir.exists()), (0, name == "empty"), "nothing is made by mistake");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_of_an_earlier_version_are_counted_and_fetched_again() {
    let world = World::drained(short(), half()).await;
    world.lose_database();
    let results = world::result_objects(world.dir.path());
    let (old, kept) = results.split_at(results.len() / 2);
    // As they were written before they said whose they are.
    for object in old {
        let name = object.file_name().unwrap().to_str().unwrap().split('.').next().unwrap();
        let bytes = std::fs::read(object).unwrap();
        std::fs::remove_file(object).unwrap();
        std::fs::write(object.with_file_name(name), &bytes[..bytes.len().saturating_sub(1)]).unwrap();
    }
    assert!(!old.is_empty() && !kept.is_empty());
    let report = world.rebuild(&["--resume"]);
    assert_eq!(report["results"]["objects"], results.len(), "{report}");
    assert_eq!(report["results"]["objects_without_index"], old.len(), "{report}");
    let restored = report["results"]["restored"].as_u64().unwrap() as usize;
    assert!(restored > 0 && restored < world.with_bodies(), "{report}");
    world.gateway.open();
    let server = world.serve();
    Client::new(&server).wait_for(&world.job, &["completed"]).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_belongs_to_whom_the_operator_says() {
    let world = World::drained(short(), 10).await;
    world.lose_database();
    // The key comes first and is somebody new; the job becomes its own.
    let server = world.serve();
    let (status, _) = Client::new(&server).get(&format!("/v1/jobs/{}", world.job)).await;
    assert_eq!(status, 404, "it is lost");
    server.stop().await;
    world.rebuild(&[]);
    let server = world.serve();
    assert_eq!(Client::with_key(&server, KEY).get(&format!("/v1/jobs/{}", world.job)).await.0, 200);
    let other = Client::with_key(&server, support::OTHER_KEY);
    assert_eq!(other.get(&format!("/v1/jobs/{}", world.job)).await.0, 404);
    server.stop().await;
}
