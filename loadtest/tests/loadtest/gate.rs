//! The real `loadtest gate` on a Conveyor that only pretends: a script that says where it listens, and a server of this
//! test that counts what a worker would.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::process::Command;

/// Leaves a note of how it was started. `exec` has no part in it, so that the signal meets the trap.
const SCRIPT: &str = r#"#!/bin/sh
[ "$1" = dev ] && [ "$CONVEYOR_BACKEND" = embedded ] && [ -z "$CONVEYOR_SLOTS" ] || exit 3
trap 'exit 0' TERM
echo "$*" >> "$PRETENDED_FOLDER/started"
echo "listening on $PRETENDED_URL"
while :; do sleep 0.05; done
"#;

struct Pretended {
    folder: PathBuf,
    messages_with_gate: u64,
}

impl Pretended {
    /// Without the gate, always ten times the tasks.
    fn messages_received(&self) -> u64 {
        let started = fs::read_to_string(self.folder.join("started")).unwrap();
        if started.lines().last().unwrap().ends_with("--gate on") { self.messages_with_gate } else { 500 }
    }
}

async fn metrics(State(state): State<Arc<Pretended>>) -> String {
    let messages = state.messages_received();
    format!("conveyor_receives_total {}\nconveyor_messages_received_total {messages}\n", messages / 10)
}

async fn submit(Json(job): Json<Value>) -> (StatusCode, Json<Value>) {
    assert_eq!((job["max_inflight"].as_u64(), job.get("rate_limit")), (Some(5), None));
    let tasks = job["tasks"].as_array().unwrap().len();
    (StatusCode::CREATED, Json(json!({ "job_id": "J", "accepted_tasks": tasks })))
}

async fn job() -> Json<Value> {
    let stats = json!({ "total": 50, "completed": 50, "failed": 0 });
    Json(json!({ "latest_run": { "status": "completed", "stats": stats } }))
}

async fn gate(folder: &Path, messages_with_gate: u64) -> Output {
    let state = Arc::new(Pretended { folder: folder.to_owned(), messages_with_gate });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/v1/jobs", post(submit))
        .route("/v1/jobs/J", get(job))
        .with_state(state);
    tokio::spawn(async move { axum::serve(listener, router).await });

    let script = folder.join("conveyor");
    fs::write(&script, SCRIPT).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadtest"));
    command.args([
        "gate",
        "--check",
        "--backend",
        "embedded",
        "--tasks",
        "50",
        "--slots",
        "40",
        "--conveyor",
    ]);
    command.arg(script).env("CONVEYOR_SLOTS", "1").env("PRETENDED_FOLDER", folder).env("PRETENDED_URL", url);
    command.output().await.unwrap()
}

#[tokio::test]
async fn both_ways_are_run_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let output = gate(folder.path(), 50).await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let started = fs::read_to_string(folder.path().join("started")).unwrap();
    assert_eq!(started, "dev --slots 40 --gate off\ndev --slots 40 --gate on\n");
    assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), 1, "one line");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["bench"], &report["unmet"]), (&json!("gate"), &json!([])));
    let [off, on] = [&report["runs"][0], &report["runs"][1]];
    assert_eq!((&off["gate"], &off["amplification"]), (&json!("off"), &json!(10.0)));
    assert_eq!((&on["gate"], &on["amplification"]), (&json!("on"), &json!(1.0)));
    assert_eq!((&on["receives"], &on["completed"], &on["dead_lettered"]), (&json!(5), &json!(50), &json!(0)));
    assert_eq!(report["off_to_on"][0]["messages_a_task"], json!(10.0));
}

#[tokio::test]
async fn a_gate_that_lets_too_much_through_is_printed_and_fails_the_check() {
    let folder = tempfile::tempdir().unwrap();
    let output = gate(folder.path(), 53).await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("not met: embedded, gate on: 1.06 messages a task, and 1.05 is the most"),
        "{said}"
    );
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["runs"][1]["messages_received"], 53);
}
