//! What an operator does on the command line when something was lost: it is counted, named, mended, and nothing is wrong any
//! more. The damage is done in the database file itself; nobody sweeps beside it, so that it stays until it is mended here.

use crate::support::{self, Client, KEY, Process, conveyor, refused, run, until_fits, urls};
use conveyor_domain::{DeadLetter, IngestEvent, IngestRef, IngestState, JobId, QueueName, Timestamp};
use conveyor_store::Backend;
use conveyor_store::embedded::Embedded;
use conveyor_store::port::{Appended, Reader, RunKey};
use rusqlite::Connection;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, Output};
use tempfile::TempDir;

const OPERATOR_KEY: &str = "operator-key-0123456789";

struct Place {
    dir: TempDir,
    inline_tasks_max: &'static str,
}

impl Place {
    fn new() -> Place {
        Place { dir: TempDir::new().unwrap(), inline_tasks_max: "100" }
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn role(&self, role: &str) -> Command {
        let mut command = conveyor();
        command.args([role, "--listen", "127.0.0.1:0", "--gateway-url", "demo:", "--api-key", KEY]);
        command
            .args(["--operator-key", OPERATOR_KEY, "--inline-tasks-max", self.inline_tasks_max])
            .env("CONVEYOR_LOG", "warn");
        command.arg("--data-dir").arg(self.data());
        command
    }

    /// The API, and nobody who works or sweeps.
    fn api(&self) -> Process {
        Process::start(self.role("api"))
    }

    /// A job that was drained, and nobody is there any more.
    async fn drained(&self, tasks: usize) -> String {
        let server = Process::start(self.role("dev"));
        let client = Client::new(&server);
        let job = client.submit(&urls("drained", tasks)).await;
        client.wait_for(&job, &["completed"]).await;
        server.stop().await;
        job
    }

    fn sql(&self, statement: &str) -> usize {
        let connection = Connection::open(self.data().join("conveyor.db")).unwrap();
        connection.busy_timeout(support::DEADLINE).unwrap();
        connection.execute(statement, []).unwrap()
    }

    /// A command without a server.
    fn direct(&self, args: &[&str]) -> Output {
        let mut command = conveyor();
        command.args(["reconcile", "--direct"]).args(args).arg("--data-dir").arg(self.data());
        run(command)
    }
}

fn with(server: &Process, args: &[&str]) -> Output {
    let mut command = conveyor();
    command.args(args).env("CONVEYOR_SERVER", &server.url).env("CONVEYOR_API_KEY", KEY);
    command.env("CONVEYOR_OPERATOR_KEY", OPERATOR_KEY);
    run(command)
}

#[track_caller]
fn says(output: &Output, code: i32, words: &[&str]) {
    let text = format!("{}{}", stdout(output), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{text}");
    for word in words {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("not one JSON document: {output:?}"))
}

const MORE: &str = "UPDATE counters SET successful = successful + 5";

#[tokio::test]
async fn a_wrong_counter_is_named_mended_and_gone() {
    let place = Place::new();
    let job = place.drained(20).await;
    let server = place.api();
    says(&with(&server, &["audit", &job]), 0, &["everything agrees", "the next sweep would change nothing"]);
    assert_eq!(place.sql(MORE), 1);

    let audit = with(&server, &["audit", &job]);
    says(&audit, 1, &["NOT everything agrees", "wrong_counters"]);
    let audit = document(&with(&server, &["audit", &job, "--json"]));
    assert_eq!((&audit["counters"]["successful"], &audit["rows"]["successful"]), (&json!(25), &json!(20)));

    // Nobody is shown 25 of 20.
    let stats = Client::new(&server).job(&job).await["latest_run"]["stats"].clone();
    assert_eq!((&stats["completed"], &stats["inconsistent"]), (&json!(20), &json!(true)));
    says(&with(&server, &["status", &job]), 0, &["20/20", "`conveyor audit`"]);

    let dry = ["reconcile", "--job", &job, "--dry-run"];
    says(&with(&server, &dry), 1, &["wrong_counters", "nothing yet; would: ", "1 wrong; nothing was done"]);
    says(&with(&server, &dry), 1, &["1 wrong; nothing was done"]);
    says(&with(&server, &["reconcile", "--job", &job]), 3, &["(1 changed)", "1 wrong, all of it mended"]);
    says(&with(&server, &["reconcile", "--job", &job]), 0, &["nothing was wrong"]);
    says(&with(&server, &["audit", &job]), 0, &["everything agrees"]);
    let stats = Client::new(&server).job(&job).await["latest_run"]["stats"].clone();
    assert_eq!((&stats["successful"], stats.get("inconsistent")), (&json!(20), None));

    // A damaged total: nobody is shown 20 of 15, and nobody mends it.
    assert_eq!(place.sql("UPDATE runs SET total = total - 5"), 1);
    let stats = Client::new(&server).job(&job).await["latest_run"]["stats"].clone();
    assert_eq!((&stats["completed"], &stats["total"]), (&json!(15), &json!(15)));
    assert_eq!(stats["inconsistent"], true);
    let there = "there are 20 rows (0 pending, 0 processing, 20 successful, 0 failed), and the total is 15";
    says(&with(&server, &["audit", &job]), 1, &["NOT everything agrees", there]);
}

async fn done_again_as_the_audit_says(place: &Place, job: &str, server: Process) {
    let rerun = format!("conveyor rerun {job} --status pending,processing");
    says(&with(&server, &["audit", job]), 1, &["3 of its tasks are not", &rerun]);
    server.stop().await;
    let server = Process::start(place.role("dev"));
    let arguments: Vec<&str> = rerun.split(' ').skip(1).chain(["--watch"]).collect();
    says(&with(&server, &arguments), 0, &["10/10", "completed"]);
    says(&with(&server, &["audit", job]), 0, &["everything agrees"]);
}

/// A run completes once: what was reset under it is done by another, as the audit says.
#[tokio::test]
async fn rows_that_were_reset_under_a_completed_run_are_done_again() {
    let place = Place::new();
    let job = place.drained(10).await;
    assert_eq!(place.sql("UPDATE tasks SET status = 0, result = NULL WHERE task_key % 3 = 0"), 3);
    let server = place.api();
    says(&with(&server, &["reconcile", "--job", &job]), 3, &["adds -3 successful to the counters"]);
    done_again_as_the_audit_says(&place, &job, server).await;
}

/// The same of a run that is too long to be looked at row by row, while its counters still say that all of it is done.
#[tokio::test]
async fn rows_that_were_reset_are_done_again_before_a_reconciliation() {
    let place = Place { inline_tasks_max: "3", ..Place::new() };
    let server = Process::start(place.role("dev"));
    let client = Client::new(&server);
    let job = client.submit_lines(urls("reset", 10).join("\n"), json!({})).await;
    client.wait_for(&job, &["completed"]).await;
    server.stop().await;
    assert_eq!(place.sql("UPDATE tasks SET status = 0, result = NULL WHERE task_key % 3 = 0"), 3);
    let server = place.api();
    done_again_as_the_audit_says(&place, &job, server).await;
}

#[tokio::test]
async fn lost_messages_are_sent_again() {
    let place = Place::new();
    let server = place.api();
    let job = Client::new(&server).submit(&urls("lost", 30)).await;
    says(&with(&server, &["reconcile"]), 0, &["nothing was wrong"]);
    assert!(place.sql("DELETE FROM messages") > 0);
    let mended = with(&server, &["reconcile", "--json"]);
    assert_eq!(mended.status.code(), Some(3));
    let finding = &document(&mended)["findings"][0];
    assert_eq!((&finding["repair"], &finding["changed"]), (&json!("missing_refs"), &json!(30)));
    says(&with(&server, &["reconcile"]), 0, &["nothing was wrong"]);
    server.stop().await;
    let server = Process::start(place.role("dev"));
    let done = Client::new(&server).wait_for(&job, &["completed"]).await;
    assert_eq!(done["latest_run"]["stats"]["successful"], 30);
}

/// SPEC 6.17: what cannot be read costs only itself, also where a sweeper looks and nobody asks.
#[tokio::test]
async fn a_run_that_cannot_be_read_keeps_the_sweeper_from_no_other() {
    let place = Place::new();
    let server = Process::start(place.role("dev"));
    let client = Client::new(&server);
    // In the order in which a sweeper looks at their runs.
    let damaged = client.submit(&urls("damaged", 3)).await;
    let ended = client.submit(&urls("ended", 10)).await;
    for job in [&damaged, &ended] {
        client.wait_for(job, &["completed"]).await;
    }
    server.stop().await;
    let server = place.api();
    let lost = Client::new(&server).submit(&urls("lost", 30)).await;
    server.stop().await;
    assert_eq!(place.sql("UPDATE runs SET status = 'running' WHERE status = 'completed'"), 2);
    assert_eq!(
        place.sql("UPDATE runs SET doc = 'garbage' WHERE run_key = (SELECT min(run_key) FROM runs)"),
        1
    );
    assert!(place.sql("DELETE FROM messages") > 0);

    let sweeper = Process::start(place.role("sweeper"));
    let client = Client::new(&sweeper);
    for swept in ["repair=\"missing_refs\"} 30", "repair=\"lost_completion\"} 1"] {
        let line = format!("conveyor_swept_total{{{swept}");
        let metrics = async || client.text(&format!("{}/metrics", client.url)).await.1;
        until_fits(&line, metrics, |text| text.lines().any(|each| each == line)).await;
    }
    sweeper.stop().await;
    says(&place.direct(&["--dry-run"]), 1, &["damaged_rows", &damaged]);
    let server = Process::start(place.role("dev"));
    let client = Client::new(&server);
    assert_eq!(client.job(&ended).await["latest_run"]["status"], "completed");
    let done = client.wait_for(&lost, &["completed"]).await;
    assert_eq!(done["latest_run"]["stats"]["successful"], 30);
}

#[tokio::test]
async fn without_a_server_the_backend_itself_is_put_right() {
    let place = Place::new();
    let job = place.drained(5).await;
    assert_eq!(place.sql(MORE), 1);
    let server = place.api();
    let in_use = format!("in use by process {}", server.id());
    says(&place.direct(&["--job", &job]), 1, &[&in_use, "leave out --direct"]);
    server.stop().await;

    let told = place.direct(&["--job", &job, "--dry-run"]);
    says(&told, 1, &["wrong_counters", "1 wrong; nothing was done, because it was a dry run"]);
    assert!(!stdout(&told).contains("nothing was wrong"), "{told:?}");
    let dry = place.direct(&["--job", &job, "--dry-run", "--json"]);
    assert_eq!((dry.status.code(), &document(&dry)["findings"][0]["outcome"]), (Some(1), &json!("seen")));
    says(&place.direct(&["--job", &job]), 3, &["wrong_counters", "1 wrong, all of it mended"]);
    says(&place.direct(&[]), 0, &["nothing was wrong"]);
    let unknown = JobId::from_bytes([1; 16]).to_string();
    let not_there = place.direct(&["--job", &unknown]);
    says(&not_there, 1, &["there is no such job (not_found)"]);
    assert!(!String::from_utf8_lossy(&not_there.stderr).contains("hint"), "{not_there:?}");
    says(&place.direct(&["--job", "x"]), 2, &["--job"]);
    let server = place.api();
    says(&with(&server, &["reconcile", "--job", &unknown]), 1, &["(not_found)"]);
    says(&with(&server, &["reconcile", "--job", "x"]), 2, &["--job"]);
}

#[test]
fn a_folder_without_data_is_not_made_into_one_in_which_nothing_is_wrong() {
    let place = Place::new();
    says(&place.direct(&[]), 1, &["there is no data in", "--data-dir"]);
    assert!(!place.data().exists());
}

/// Gives up the ingest of a list that nobody reads, as an ingester and a sweeper would.
async fn give_up(backend: &Backend, job: &str, run: &str, error: &str) {
    let key = RunKey { job: job.parse().unwrap(), run: run.parse().unwrap() };
    let now = backend.store.run(key.job, key.run).await.unwrap().unwrap().run.updated;
    let log = backend.store.ingest(key, Reader::Role).await.unwrap().unwrap().log;
    let state = IngestState::fold(&log).unwrap();
    let event = IngestEvent::AttemptFailed { error: error.to_owned(), dead_lettered: true };
    let appended = backend.store.append(key, state.entry(event).unwrap(), now).await.unwrap();
    assert_eq!(appended, Appended::Done);
    while !backend.queue.remove(QueueName::Control, 100).await.unwrap() {}
    let message = IngestRef { job: key.job, run: key.run, progress: state.progress };
    backend.store.keep_letter(DeadLetter::new(message.to_string(), now)).await.unwrap();
}

/// Jobs whose lists were given up, each with another error.
async fn with_letters(place: &Place, errors: &[&str]) -> Vec<String> {
    let api = place.api();
    let client = Client::new(&api);
    let list: String = (0..200).map(|n| format!("https://example.com/{n}\n")).collect();
    let mut accepted = Vec::new();
    for _ in errors {
        let upload = client.upload(&json!({"type": "lines"}), list.clone().into_bytes()).await;
        let (status, job) = client.try_submit(&json!({"file_input_id": upload})).await.unwrap();
        assert_eq!(status, 202, "{job}");
        let id = |value: &Value| value.as_str().unwrap().to_owned();
        accepted.push((id(&job["job_id"]), id(&job["latest_run"]["run_id"])));
    }
    api.stop().await;
    let store = Embedded::open(&place.data(), Timestamp(0)).unwrap();
    for ((job, run), error) in accepted.iter().zip(errors) {
        give_up(&store.backend(), job, run, error).await;
    }
    accepted.into_iter().map(|(job, _)| job).collect()
}

#[tokio::test]
async fn dead_letters_are_listed_sent_again_and_let_go() {
    let place = Place::new();
    let jobs = with_letters(&place, &["the disk is away", "no room", "no room at all"]).await;
    let server = place.api();
    let letters = |filter: &[&str]| {
        let args: Vec<&str> = ["dlq", "list", "--json"].iter().chain(filter).copied().collect();
        document(&with(&server, &args))["dead_letters"].as_array().unwrap().clone()
    };
    assert_eq!(letters(&[]).len(), 3);
    says(&with(&server, &["dlq", "list"]), 0, &["the disk is away", "no room at all", "keep"]);
    let first = letters(&["--job", &jobs[0]]).remove(0)["letter_id"].as_str().unwrap().to_owned();
    says(&with(&server, &["dlq", "show", &first]), 0, &["the disk is away", &jobs[0], "1:ingest:"]);

    // Nothing is ever meant by nothing.
    for verb in ["redrive", "purge"] {
        assert_eq!(with(&server, &["dlq", verb]).status.code(), Some(2), "{verb}");
        assert_eq!(with(&server, &["dlq", verb, &first, "--all"]).status.code(), Some(2), "{verb}");
        says(&with(&server, &["dlq", verb, "--error", ""]), 2, &["--error"]);
    }
    says(&with(&server, &["dlq", "redrive", &first]), 0, &[&format!("{first} sent")]);
    says(&with(&server, &["dlq", "redrive", &first]), 1, &[&format!("{first} not_found")]);
    assert_eq!(letters(&[]).len(), 2);
    let purged = with(&server, &["dlq", "purge", "--error", "at all", "--json"]);
    assert_eq!((purged.status.code(), document(&purged)["purged"].as_array().unwrap().len()), (Some(0), 1));
    let run = Client::new(&server).job(&jobs[2]).await["latest_run"].clone();
    assert_eq!((&run["status"], &run["failure_reason"]), (&json!("failed"), &json!("ingest_failed")));
    let sent = document(&with(&server, &["dlq", "redrive", "--all", "--rate", "100", "--json"]));
    assert_eq!(sent["redriven"][0]["outcome"], "sent");
    assert!(letters(&[]).is_empty());
    server.stop().await;
    // What was sent again is read now.
    let server = Process::start(place.role("dev"));
    for job in &jobs[..2] {
        let done = Client::new(&server).wait_for(job, &["completed"]).await;
        assert_eq!(done["latest_run"]["stats"]["total"], 200);
    }
    // What was let go is in its list, all of it.
    says(&with(&server, &["rerun", &jobs[2], "--watch"]), 0, &["200/200", "completed"]);
}

#[tokio::test]
async fn a_key_of_a_caller_is_not_an_operators() {
    let place = Place::new();
    let server = place.api();
    for (key, code) in
        [(KEY, "forbidden"), ("some-other-key-012345", "unauthenticated"), ("", "unauthenticated")]
    {
        let mut command = conveyor();
        command.args(["dlq", "list", "--server", &server.url, "--operator-key", key]);
        command.args(["--data-dir", "no-such-directory"]);
        says(&run(command), 1, &[code, "pass --operator-key"]);
    }
    server.stop().await;
    let mut command = conveyor();
    command.args([
        "api",
        "--listen",
        "127.0.0.1:0",
        "--gateway-url",
        "demo:",
        "--api-key",
        KEY,
        "--data-dir",
    ]);
    let server = Process::start({
        command.arg(place.data()).env("CONVEYOR_LOG", "warn");
        command
    });
    let nobody = with(&server, &["dlq", "list"]);
    says(&nobody, 1, &["forbidden", "start the server with --operator-key"]);
    assert!(!String::from_utf8_lossy(&nobody.stderr).contains("pass --operator-key"), "{nobody:?}");
    server.stop().await;
    for (key, why) in [("short", "at least 16 characters"), (KEY, "cannot be an API key too")] {
        let mut command = place.role("api");
        command.args(["--operator-key", key]);
        let text = refused(command).await;
        assert!(text.contains(why) && !text.contains(key), "{text}");
    }
}

#[tokio::test]
async fn dev_makes_an_operator_key_keeps_it_private_and_uses_it_again() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let start = || {
        let mut command = conveyor();
        command.args(["dev", "--listen", "127.0.0.1:0", "--gateway-url", "demo:", "--data-dir"]);
        command.arg(place.data()).env("CONVEYOR_LOG", "warn");
        Process::start(command)
    };
    let reconcile = |server: &Process| {
        let mut command = conveyor();
        command.args(["reconcile", "--server", &server.url, "--data-dir"]).arg(place.data());
        run(command)
    };
    let server = start();
    let file = place.data().join("operator-key");
    let key = std::fs::read_to_string(&file).unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_ne!(key, std::fs::read_to_string(place.data().join("api-key")).unwrap());
    says(&reconcile(&server), 0, &["nothing was wrong"]);
    server.stop().await;
    let server = start();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), key);
    says(&reconcile(&server), 0, &["nothing was wrong"]);
}
