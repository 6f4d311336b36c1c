//! The real `loadtest bill` on roles that only pretend: a script that says where it listens, and servers of this test
//! that count what a Conveyor would.

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::process::Command;

/// `exec` has no part in it, so that the signal meets the trap.
const SCRIPT: &str = r#"#!/bin/sh
[ "$CONVEYOR_BACKEND" = aws ] && [ "$CONVEYOR_AWS_TABLE" = t-1 ] && [ -z "$CONVEYOR_SLOTS" ] || exit 3
[ "$1" = provision ] && exit 0
trap 'exit 0' TERM
: > "$PRETENDED_FOLDER/$1"
eval "echo listening on \$PRETENDED_$1"
while :; do sleep 0.05; done
"#;
const ID: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
const AT: &str = "2026-11-16T05:00:15.912Z";
const ROLES: [&str; 4] = ["api", "ingest", "sweeper", "worker"];

#[derive(Default)]
struct Pretended {
    /// Where roles leave a file when they start.
    folder: PathBuf,
    urls: Mutex<Vec<String>>,
    rows_read: AtomicU64,
    /// Rows that are read for a page beyond those on it.
    extra_rows: u64,
}

impl Pretended {
    fn tasks(&self) -> u64 {
        self.urls.lock().unwrap().len() as u64
    }

    /// As soon as there is a worker, it has done everything.
    fn is_drained(&self) -> bool {
        self.tasks() > 0 && self.folder.join("worker").exists()
    }

    fn metrics(&self, role: &str) -> String {
        let tasks = self.tasks();
        let calls = |service: &str, operation: &str, count: u64| {
            let labels = format!(r#"service="{service}",operation="{operation}",outcome="ok""#);
            format!("conveyor_aws_calls_total{{{labels}}} {count}\n")
        };
        let units = |kind: &str, tenths: u64| {
            format!("conveyor_aws_capacity_tenths_total{{operation=\"Any\",kind=\"{kind}\"}} {tenths}\n")
        };
        match role {
            "api" => {
                let rows = format!("conveyor_aws_rows_read_total {}\n", self.rows_read.load(SeqCst));
                calls("SQS", "SendMessageBatch", tasks.div_ceil(10)) + &units("write", 10 * tasks) + &rows
            }
            "worker" => {
                let written = units("write", 30 * tasks) + &units("read", 5 * tasks);
                written + &calls("SQS", "ReceiveMessage", tasks / 5) + &calls("S3", "PutObject", tasks / 50)
            }
            "sweeper" => calls("SQS", "DeleteQueue", u64::from(self.is_drained())),
            _ => String::new(),
        }
    }
}

async fn submit(State(state): State<Arc<Pretended>>, Json(job): Json<Value>) -> (StatusCode, Json<Value>) {
    let tasks = job["tasks"].as_array().unwrap();
    let urls = tasks.iter().map(|task| task["url"].as_str().unwrap().to_owned());
    *state.urls.lock().unwrap() = urls.collect();
    (StatusCode::CREATED, Json(json!({ "job_id": ID, "status": "closed", "accepted_tasks": tasks.len() })))
}

async fn job(State(state): State<Arc<Pretended>>) -> Json<Value> {
    let (total, drained) = (state.tasks(), state.is_drained());
    let completed = if drained { total } else { 0 };
    let stats = json!({ "total": total, "completed": completed, "successful": completed, "failed": 0 });
    let run = json!({
        "run_id": ID, "job_id": ID, "run_sequence": 1, "status": if drained { "completed" } else { "running" },
        "trigger": "manual", "stats": stats, "last_batch_received": true, "created_at": AT, "updated_at": AT,
    });
    Json(json!({
        "job_id": ID, "type": "regular", "status": "closed", "format": "html", "max_inflight": 100,
        "result_ttl_days": 14, "task_shard_count": 16, "latest_run": run, "created_at": AT, "updated_at": AT,
    }))
}

#[derive(Deserialize)]
struct Page {
    limit: usize,
    cursor: Option<usize>,
}

async fn results(State(state): State<Arc<Pretended>>, Query(page): Query<Page>) -> Json<Value> {
    let urls = state.urls.lock().unwrap();
    let begin = page.cursor.unwrap_or(0);
    let end = urls.len().min(begin + page.limit);
    state.rows_read.fetch_add((end - begin) as u64 + state.extra_rows, SeqCst);
    let rows = (begin..end).map(|n| {
        let task_id = format!("{n:08x}{:024}", 0);
        json!({
            "task_id": task_id, "run_id": ID, "url": urls[n], "status": "successful", "created_at": AT,
            "updated_at": AT,
        })
    });
    let next = (end < urls.len()).then(|| end.to_string());
    Json(json!({ "results": rows.collect::<Vec<_>>(), "next_cursor": next }))
}

async fn serve(role: &'static str, state: Arc<Pretended>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let metrics = async move |State(state): State<Arc<Pretended>>| state.metrics(role);
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/v1/jobs", post(submit))
        .route("/v1/jobs/{job}", get(job))
        .route("/v1/jobs/{job}/results", get(results))
        .with_state(state);
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

fn script(folder: &Path) -> PathBuf {
    let path = folder.join("conveyor");
    std::fs::write(&path, SCRIPT).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

async fn bill(tasks: u64, extra_rows: u64, flags: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let state = Arc::new(Pretended { folder: folder.path().to_owned(), extra_rows, ..Pretended::default() });
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadtest"));
    command.args([
        "bill",
        "--endpoints-from-env",
        "--deadline-seconds",
        "180",
        "--tasks",
        &tasks.to_string(),
    ]);
    command.arg("--conveyor").arg(script(folder.path())).args(flags);
    command.envs([
        ("CONVEYOR_AWS_TABLE", "t-1"),
        ("CONVEYOR_AWS_QUEUE_PREFIX", "q"),
        ("CONVEYOR_SLOTS", "1"),
    ]);
    command.env("CONVEYOR_AWS_BUCKET", "b").env("PRETENDED_FOLDER", folder.path());
    for role in ROLES {
        command.env(format!("PRETENDED_{role}"), serve(role, state.clone()).await);
    }
    command.output().await.unwrap()
}

#[tokio::test]
async fn each_phase_is_billed_for_what_it_used() {
    let output = bill(2500, 0, &["--check"]).await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("per task") && said.contains("enumeration"), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let phase = |name: &str| &report["phases"][name];
    assert_eq!(phase("submit")["per_task"]["write_units"], json!(1.0));
    assert_eq!(phase("submit")["calls"], json!({ "sqs": { "SendMessageBatch": 250 } }));
    assert_eq!(phase("ingest")["calls"], json!({}));
    assert_eq!(phase("drain")["per_task"]["write_units"], json!(3.0));
    assert_eq!(phase("enumeration")["rows_read"], 2500);
    let total = &report["total"]["per_task"];
    let each = [&total["write_units"], &total["read_units"], &total["sqs_requests"], &total["s3_put_class"]];
    assert_eq!(each, [&json!(4.0), &json!(0.5), &json!(0.3004), &json!(0.02)]);
    // 4 writes, half a read, 0.3004 requests and 0.02 puts.
    assert_eq!(report["total"]["dollars_per_million_tasks"]["total"], json!(2.783));
    assert_eq!((&report["task_shard_count"], &report["servers"]), (&json!(16), &json!("from-env")));
    assert_eq!((&report["queue_deleted"], &report["over_budget"]), (&json!(true), &json!([])));
}

#[tokio::test]
async fn a_bill_over_budget_is_printed_and_fails_only_the_check() {
    for (flags, status) in [(&["--check", "--overlap"][..], 1), (&[][..], 0)] {
        let output = bill(1000, 500, flags).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert!(said.contains("over budget: 1.5 rows read per row returned"), "{said}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["rows_read_per_row_returned"], json!(1.5));
    }
}

#[tokio::test]
async fn a_role_that_ends_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadtest"));
    command.args(["bill", "--endpoints-from-env", "--conveyor"]).arg(script(folder.path()));
    command.env_remove("CONVEYOR_AWS_TABLE");
    let nameless = command.output().await.unwrap();
    assert!(String::from_utf8_lossy(&nameless.stderr).contains("needs CONVEYOR_AWS_TABLE"));
    command.envs([
        ("CONVEYOR_AWS_TABLE", "x"),
        ("CONVEYOR_AWS_QUEUE_PREFIX", "q"),
        ("CONVEYOR_AWS_BUCKET", "b"),
    ]);
    let refused = command.output().await.unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && said.contains("conveyor provision ended with"), "{said}");
    assert!(refused.stdout.is_empty());
}
