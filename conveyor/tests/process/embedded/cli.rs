//! The command line where the backend does not matter, or is the embedded one.

use crate::support::{self, DEADLINE, KEY, Process, Signal, conveyor, run};
use serde_json::Value;
use std::path::Path;
use std::process::{Output, Stdio};
use tempfile::TempDir;

fn demo(dir: &Path) -> Process {
    support::embedded(&dir.join("data"), &["--gateway-url", "demo:"])
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("not one JSON document: {output:?}"))
}

#[tokio::test]
async fn no_server_and_no_key_are_explained() {
    let mut command = conveyor();
    command.args([
        "status",
        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "--server",
        "http://127.0.0.1:9",
        "--api-key",
        KEY,
    ]);
    let output = run(command);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("conveyor dev"), "{output:?}");

    let dir = TempDir::new().unwrap();
    let server = demo(dir.path());
    let mut command = conveyor();
    command.args(["status", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "--server", &server.url]).current_dir(dir.path());
    let output = run(command);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("unauthenticated"), "{output:?}");
}

#[tokio::test]
async fn dev_makes_a_key_keeps_it_private_and_uses_it_again() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let start = || {
        let mut command = conveyor();
        command.args(["dev", "--listen", "127.0.0.1:0", "--gateway-url", "demo:", "--data-dir"]).arg(&data);
        Process::start(command)
    };
    let server = start();
    let key = std::fs::read_to_string(data.join("api-key")).unwrap();
    for private in ["api-key", "secret.key"] {
        let mode = std::fs::metadata(data.join(private)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{private}");
    }
    let mut command = conveyor();
    command.args(["submit", "https://example.com/", "--watch", "--json", "--server", &server.url]);
    command.arg("--data-dir").arg(&data);
    let job = json(&run(command))["job_id"].as_str().unwrap().to_owned();
    server.stop().await;
    let server = start();
    assert_eq!(std::fs::read_to_string(data.join("api-key")).unwrap(), key);
    let mut command = conveyor();
    command.args(["status", &job, "--json", "--server", &server.url]).arg("--data-dir").arg(&data);
    assert_eq!(json(&run(command))["latest_run"]["status"], "completed");
}

#[tokio::test]
async fn accepted_now_and_drained_later_by_separate_roles() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let mut command = conveyor();
    command
        .args(["api", "--listen", "127.0.0.1:0", "--gateway-url", "demo:", "--api-key", KEY, "--data-dir"])
        .arg(&data);
    let api = Process::start(command);
    let job = support::Client::new(&api).submit(&support::urls("later", 20)).await;
    api.stop().await;
    let mut command = conveyor();
    command.args(["--gateway-url", "demo:", "--listen", "127.0.0.1:0", "--data-dir"]).arg(&data);
    command.env("CONVEYOR_ROLE", "worker");
    let worker = Process::start(command);
    support::until("the worker has drained the job", async || {
        let blobs = data.join("blobs/jobs").join(&job);
        blobs.exists()
    })
    .await;
    worker.stop().await;
    let server = demo(dir.path());
    let done = support::Client::new(&server).wait_for(&job, &["completed"]).await;
    assert_eq!(done["latest_run"]["stats"]["successful"], 20);
}

const ID: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
const FIRST: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAA";

/// A server that answers once, when `FIRST` is deleted, and is silent about everything else.
async fn silent_server() -> (String, tokio::sync::mpsc::Receiver<()>) {
    let (arrived, arrivals) = tokio::sync::mpsc::channel(8);
    let answer = async move |uri: axum::http::Uri| {
        if uri.path().ends_with(FIRST) {
            return axum::Json(serde_json::json!({"letter_id": FIRST, "outcome": "purged"}));
        }
        let _ = arrived.send(()).await;
        std::future::pending().await
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = axum::Router::new().fallback(answer);
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, arrivals)
}

/// Runs a command until the server has its request, then presses Ctrl-C.
async fn interrupted(words: &[&str]) -> Output {
    let (url, mut arrivals) = silent_server().await;
    let mut command = conveyor();
    command.args(words).env("CONVEYOR_SERVER", &url).env("CONVEYOR_DATA_DIR", "no-such-directory");
    command.envs([("AWS_ENDPOINT_URL", url.as_str()), ("AWS_REGION", "us-east-1")]);
    command.envs([("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")]);
    let child = Process::spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()));
    tokio::time::timeout(DEADLINE, arrivals.recv()).await.unwrap().unwrap();
    child.signal(Signal::INT);
    tokio::task::spawn_blocking(|| child.output()).await.unwrap()
}

#[tokio::test]
async fn ctrl_c_ends_a_command_with_a_sentence() {
    for (words, sentence) in [
        (&["audit", ID][..], "nothing was changed"),
        (&["delete", ID], "whether it was deleted is not known"),
        (&["reconcile"], "0 mended so far"),
        (&["reconcile", "--direct", "--backend", "aws", "--aws-bucket", "b"], "looked at"),
        (&["dlq", "list"], "nothing was changed"),
        (&["dlq", "show", ID], "nothing was changed"),
        (&["dlq", "redrive", "--all"], "0 redriven so far"),
        (&["dlq", "purge", FIRST, ID], "1 purged so far"),
    ] {
        let output = interrupted(words).await;
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(said.contains(sentence) && said.contains("(interrupted)"), "{words:?}: {said}");
    }
    let output = interrupted(&["audit", ID, "--json"]).await;
    let problem: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!((output.status.code(), problem["code"].as_str()), (Some(1), Some("interrupted")));
    assert!(output.stdout.is_empty(), "{output:?}");
}
