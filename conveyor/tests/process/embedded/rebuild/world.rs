//! A list that is drained part of the way, and what was seen of it.

use crate::support::{self, Client, DEADLINE, Gateway, KEY, Process, conveyor};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::Instant;

/// One line of the list; every kind of end that a task can have is in it.
fn line(n: usize) -> String {
    match n {
        _ if n % 50 == 7 => format!("not a URL {n}"),
        _ if n % 97 == 3 => format!("https://example.com/missing/{n}"),
        _ if n % 89 == 5 => format!("https://example.com/empty/{n}"),
        _ if n % 400 == 11 => format!("https://example.com/large/{n}"),
        _ => format!("https://example.com/page/{n}"),
    }
}

pub fn accepted(lines: usize) -> usize {
    (0..lines).filter(|n| n % 50 != 7).count()
}

/// A task as a caller sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub id: String,
    pub url: String,
    pub status: String,
    pub error: Option<String>,
    pub body: Option<String>,
}

impl Seen {
    /// Whether there is an object that says how it ended.
    pub fn has_body(&self) -> bool {
        self.body.as_ref().is_some_and(|body| !body.is_empty())
    }
}

pub struct World {
    pub dir: TempDir,
    pub gateway: Gateway,
    pub job: String,
    /// When the server was killed.
    pub before: Vec<Seen>,
}

impl World {
    /// A list of so many lines, of which so many tasks are done when the server is killed.
    pub async fn drained(lines: usize, done: usize) -> World {
        let gateway = Gateway::start(done).await;
        let dir = TempDir::new().unwrap();
        let mut world = World { dir, gateway, job: String::new(), before: Vec::new() };
        let server = world.serve();
        let client = Client::new(&server);
        let text: String = (0..lines).map(|n| line(n) + "\n").collect();
        let upload = client.upload(&json!({"type": "lines"}), text.into_bytes()).await;
        let submit = json!({"status": "closed", "file_input_id": upload, "max_inflight": 200});
        let (status, answer) = client.post_json("/v1/jobs", &submit).await;
        assert!(matches!(status, 201 | 202), "{answer}");
        world.job = answer["job_id"].as_str().unwrap().to_owned();
        support::until("so many are done, and the list is read", async || {
            let run = &client.job(&world.job).await["latest_run"];
            run["stats"]["completed"] == done && run["ingest_status"] != "pending"
        })
        .await;
        world.before = seen(&client, &world.job).await;
        server.kill();
        world
    }

    pub fn serve(&self) -> Process {
        serve(self.dir.path(), &self.gateway)
    }

    /// What a rebuild notes while it is at work.
    pub fn note(&self, name: &str) -> PathBuf {
        note(self.dir.path(), &self.job, name)
    }

    pub fn with_bodies(&self) -> usize {
        self.before.iter().filter(|task| task.has_body()).count()
    }

    pub fn lose_database(&self) {
        lose_database(self.dir.path());
    }

    pub fn sql(&self, statements: &str) {
        database(self.dir.path()).execute_batch(statements).unwrap();
    }

    /// What a dry run foresees is what is done, to the last number.
    #[track_caller]
    pub fn rebuild(&self, flags: &[&str]) -> Value {
        let run = |flags: &[&str]| report(&support::run(rebuild_command(self.dir.path(), &self.job, flags)));
        let mut foreseen = run(&[flags, &["--dry-run"]].concat());
        assert_eq!(foreseen["dry_run"], true);
        let report = run(flags);
        foreseen["dry_run"] = false.into();
        assert_eq!(foreseen, report, "{flags:?}");
        report
    }

    /// What a rebuild says that cannot be done.
    pub fn refused(&self, flags: &[&str]) -> Value {
        refusal(&support::run(rebuild_command(self.dir.path(), &self.job, flags)))
    }

    /// Lets everything be answered, and checks that the list ends as if nothing had happened.
    pub async fn check_completes(&self) {
        self.gateway.open();
        let server = self.serve();
        let client = Client::new(&server);
        let view = client.wait_for(&self.job, &["completed", "failed", "stopped"]).await;
        assert_eq!(view["latest_run"]["status"], "completed", "{view}");
        let after = seen(&client, &self.job).await;
        let ids = |tasks: &[Seen]| tasks.iter().map(|t| (t.id.clone(), t.url.clone())).collect::<Vec<_>>();
        assert_eq!(ids(&after), ids(&self.before), "the same tasks in the same order");
        let calls = self.gateway.calls();
        for (before, after) in self.before.iter().zip(&after) {
            if before.has_body() {
                assert_eq!(after, before, "what was done stays as it is");
                assert_eq!(calls[&before.url], 1, "{} was fetched again", before.url);
            }
            check_end(after);
        }
        self.check_audit(&client).await;
        server.stop().await;
    }

    pub async fn check_audit(&self, client: &Client) {
        let run = client.job(&self.job).await["latest_run"]["run_id"].as_str().unwrap().to_owned();
        let (status, audit) = client.get(&format!("/v1/jobs/{}/runs/{run}/audit", self.job)).await;
        assert_eq!((status, &audit["agrees"]), (200, &json!(true)), "{audit}");
        assert_eq!(audit["results"]["missing"], 0, "{audit}");
        let bodies = client.get(&format!("/v1/jobs/{}/runs/{run}/audit/bodies", self.job)).await.1;
        let faults = [&bodies["unverified"], &bodies["more_at_fault"]];
        assert_eq!(faults, [&json!(0), &json!(0)], "what was restored has its checksum: {bodies}");
        assert_eq!(bodies["at_fault"], json!([]), "{bodies}");
    }
}

fn note(dir: &Path, job: &str, name: &str) -> PathBuf {
    dir.join("blobs/jobs").join(job).join("rebuild").join(name)
}

/// Waits until a rebuild in this folder has begun to change something, or has ended. Says whether it has begun.
pub async fn begins(dir: &Path, job: &str, mut has_ended: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if note(dir, job, "anew").exists() {
            return true;
        }
        if has_ended() {
            return false;
        }
        assert!(Instant::now() < deadline, "the rebuild does not begin");
        // More often than `until` looks: what follows is short.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// As the gateway answers its URL.
fn check_end(task: &Seen) {
    match task.url.split('/').nth(3) {
        Some("missing") => assert_eq!(task.status, "failed", "{task:?}"),
        Some("empty") => assert_eq!((&*task.status, task.body.as_deref()), ("successful", Some(""))),
        _ => {
            let body = task.body.as_deref().unwrap_or_default();
            let (first, _) = body.split_once('\n').unwrap();
            assert!(
                first.ends_with(&format!(" of {}", task.url)),
                "{first:?} is not the body of {}",
                task.url
            );
        }
    }
}

pub fn serve(dir: &Path, gateway: &Gateway) -> Process {
    let inline = (super::short() + 1).to_string();
    let flags = ["--gateway-url", &gateway.url, "--chunk-rows", "200", "--shutdown-grace-ms", "500"];
    support::embedded(dir, &[&flags[..], &["--inline-tasks-max", &inline]].concat())
}

/// Everything that a caller can see of a job's tasks, bodies included.
pub async fn seen(client: &Client, job: &str) -> Vec<Seen> {
    let mut tasks = Vec::new();
    for result in client.results_by(job, 1000).await {
        let text = |name: &str| result[name].as_str().map(str::to_owned);
        let body = match text("result_url") {
            Some(url) => {
                let (status, body) = client.text(&url).await;
                assert_eq!(status, 200, "{result}");
                Some(body)
            }
            None => None,
        };
        tasks.push(Seen {
            id: text("task_id").unwrap(),
            url: text("url").unwrap(),
            status: text("status").unwrap(),
            error: result["error"]["code"].as_str().map(str::to_owned),
            body,
        });
    }
    let ids: HashSet<&String> = tasks.iter().map(|task| &task.id).collect();
    assert_eq!(ids.len(), tasks.len(), "a task is there twice");
    tasks
}

pub fn database(dir: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(dir.join("conveyor.db")).unwrap()
}

pub fn lose_database(dir: &Path) {
    for name in ["conveyor.db", "conveyor.db-wal", "conveyor.db-shm"] {
        let removed = std::fs::remove_file(dir.join(name));
        assert!(name != "conveyor.db" || removed.is_ok());
    }
}

pub fn rebuild_command(dir: &Path, job: &str, flags: &[&str]) -> Command {
    let mut command = rebuild_without_key(dir, job, flags);
    command.args(["--owner-key", KEY, "--json"]);
    command
}

pub fn rebuild_without_key(dir: &Path, job: &str, flags: &[&str]) -> Command {
    let mut command = conveyor();
    command.args(["rebuild", job, "--data-dir"]).arg(dir).args(flags);
    command
}

pub fn report(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

pub fn refusal(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
    serde_json::from_slice(&output.stderr).unwrap()
}

/// The one object of the one upload.
pub fn staged_list(dir: &Path) -> PathBuf {
    let only = |folder: PathBuf| {
        let mut entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let first = entries.next().unwrap();
        assert_eq!(entries.next(), None, "{} has more than one entry", folder.display());
        first
    };
    only(only(dir.join("blobs/uploads")))
}

/// All objects of results, in the order of their names.
pub fn result_objects(dir: &Path) -> Vec<PathBuf> {
    let only = |folder: PathBuf| std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let results = only(only(dir.join("blobs/jobs")).join("runs")).join("results");
    let entries = std::fs::read_dir(results).unwrap().map(|entry| entry.unwrap().path());
    let mut objects: Vec<PathBuf> = entries.collect();
    objects.sort();
    objects
}
