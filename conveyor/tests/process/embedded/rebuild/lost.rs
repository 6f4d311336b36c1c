//! A job of which no row is left is made as it was submitted; whatever was said about it since is not known.

use super::world::{self, World};
use crate::support::{self, Client, DEADLINE, KEY, Process, Signal, sized};
use serde_json::{Value, json};
use std::fs::File;
use std::process::{ExitStatus, Stdio};

const LINES: usize = 600;
const FILE_KEY: &str = "a-key-in-a-file-0123456789";

fn remarks(report: &Value) -> String {
    report["remarks"].as_array().unwrap().iter().map(|remark| remark.as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_goes_on_only_when_somebody_says_so() {
    let world = World::drained(LINES, LINES / 2).await;
    world.lose_database();
    let report = world.rebuild(&[]);
    assert_eq!((&report["left_paused"], &report["resumed"]), (&json!(true), &json!(false)), "{report}");
    assert_eq!(report["run"], json!({"status": "running", "paused": true}), "{report}");
    let remarks = remarks(&report);
    for said in ["those of its submit", "conveyor limits", &format!("conveyor resume {}", world.job)] {
        assert!(remarks.contains(said), "{remarks}");
    }
    let again = world.rebuild(&["--resume"]);
    assert_eq!(again["run"]["paused"], true, "its rows are there, and no rebuild is under way: {again}");

    // Beside a worker that could start at once.
    let calls = world.gateway.calls();
    world.gateway.open();
    let server = world.serve();
    let client = Client::new(&server);
    assert_eq!(client.job(&world.job).await["latest_run"]["pause_state"], "paused");
    let other = client.submit(&support::urls("https://example.com/page/other", 1)).await;
    client.wait_for(&other, &["completed"]).await;
    assert_eq!(world.gateway.calls().len(), calls.len() + 1, "nothing else is fetched");
    assert_eq!(client.post(&format!("/v1/jobs/{}/resume", world.job)).await.0, 200);
    server.stop().await;
    world.check_completes().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_which_everything_is_restored_it_completes_although_it_is_paused() {
    // Only pages: each of them has a body.
    let world = World::drained(3, 3).await;
    assert_eq!(world.with_bodies(), 3);
    world.lose_database();
    let report = world.rebuild(&[]);
    assert_eq!(report["run"], json!({"status": "completed", "paused": false}), "{report}");
    assert_eq!(report["left_paused"], false, "{report}");
    assert!(!remarks(&report).contains("resume"), "{report}");
    world.check_completes().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_belongs_to_the_key_in_the_data_directory() {
    let world = World::drained(LINES, 10).await;
    world.lose_database();
    let rebuild = |flags: &[&str]| {
        let mut command = world::rebuild_without_key(world.dir.path(), &world.job, flags);
        command.arg("--json");
        support::run(command)
    };
    let report = world::report(&rebuild(&["--dry-run"]));
    assert_eq!(report["owner_by"], "accepted", "{report}");
    assert!(remarks(&report).contains("--owner-key"), "{report}");
    let file = world.dir.path().join("api-key");
    std::fs::write(&file, "short\n").unwrap();
    let output = rebuild(&["--dry-run"]);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));

    std::fs::write(&file, format!("{FILE_KEY}\n")).unwrap();
    for flags in [&["--dry-run"][..], &["--resume"]] {
        let report = world::report(&rebuild(flags));
        assert_eq!(report["owner_by"], "api_key_file", "{report}");
        assert!(remarks(&report).contains("in the data directory"), "{report}");
    }
    let mut command = support::conveyor();
    command.args(["dev", "--listen", "127.0.0.1:0", "--gateway-url", &world.gateway.url, "--data-dir"]);
    command.arg(world.dir.path()).env("CONVEYOR_LOG", "warn");
    world.gateway.open();
    let server = Process::start(command);
    Client::with_key(&server, FILE_KEY).wait_for(&world.job, &["completed"]).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_report_for_people_says_the_same() {
    let world = World::drained(LINES, 10).await;
    world.lose_database();
    let output = support::run(world::rebuild_without_key(world.dir.path(), &world.job, &[]));
    let text = String::from_utf8(output.stdout).unwrap();
    for said in ["running, paused\n", "those of its submit", "conveyor resume", "whose API keys may be gone"]
    {
        assert!(text.contains(said), "{said}: {text}");
    }
}

/// Signals a rebuild that has begun to change something. Returns how it ended, and what it wrote to stderr.
async fn rebuild_and_signal(world: &World, signal: Signal, flags: &[&str]) -> (ExitStatus, String) {
    world.lose_database();
    let mut command = world::rebuild_without_key(world.dir.path(), &world.job, flags);
    command.args(["--owner-key", KEY]);
    let said = world.dir.path().join("stderr");
    let mut child = Process::spawn(command.stdout(Stdio::null()).stderr(File::create(&said).unwrap()));
    if world::begins(world.dir.path(), &world.job, || child.has_ended()).await {
        child.signal(signal);
    }
    let status = child.wait(DEADLINE).await;
    (status, std::fs::read_to_string(said).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_ends_a_rebuild_and_the_next_goes_on() {
    let mut lines = sized(4_000, 11_000);
    let lines_max = 8 * lines;
    let mut world = World::drained(lines, 10).await;
    for (signal, flags) in [(Signal::INT, &["--json"][..]), (Signal::TERM, &[])] {
        let said = loop {
            let (status, said) = rebuild_and_signal(&world, signal, flags).await;
            if !status.success() {
                assert_eq!(status.code(), Some(1), "{said}");
                break said;
            }
            // It ended before the signal came. A longer list takes longer.
            lines *= 2;
            assert!(lines <= lines_max, "no rebuild was at work when it was signalled");
            world = World::drained(lines, 10).await;
        };
        if flags.is_empty() {
            assert!(said.starts_with("error: Stopped: ") && said.contains("(interrupted)"), "{said}");
        } else {
            let problem: Value = serde_json::from_str(&said).unwrap();
            assert_eq!(problem["code"], "interrupted", "{problem}");
        }
        assert!(said.contains("may be left paused") && said.contains("repeat"), "{said}");
        let report = world.rebuild(&[]);
        assert_eq!(report["left_paused"], true, "what was lost is as lost as before: {report}");
        assert!(!world.note("anew").exists());
    }
}
