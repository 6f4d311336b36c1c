//! An upload that is interrupted, without a server of ours.

use crate::support::{DEADLINE, KEY, Process, Signal, conveyor};
use axum::extract::Path as InPath;
use axum::routing::{post, put};
use axum::{Json, Router};
use serde_json::{Value, json};
use std::process::Stdio;
use tempfile::TempDir;

const MIB: usize = 1024 * 1024;

/// A server that takes no part: for an upload that can only be interrupted.
async fn silent_server() -> (String, tokio::sync::mpsc::Receiver<u32>) {
    let (arrived, arrivals) = tokio::sync::mpsc::channel(8);
    let at = "2026-11-16T05:00:15.912Z";
    let slot = json!({"file_input_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "type": "lines", "status": "waiting",
        "multipart": {"parts_max": 1000, "numbers_max": 100}, "created_at": at, "expires_at": at});
    let sign = async move |Json(body): Json<Value>| {
        let number = &body["numbers"][0];
        let url = format!("/parts/{number}");
        Json(
            json!({"parts": [{"number": number, "method": "PUT", "url": url, "headers": {}, "expires_at": at}]}),
        )
    };
    let never = move |InPath(number): InPath<u32>| async move {
        let _ = arrived.send(number).await;
        std::future::pending::<()>().await
    };
    let router = Router::new()
        .route("/v1/job_inputs", post(async move || Json(slot.clone())))
        .route("/v1/job_inputs/{upload}/parts", post(sign))
        .route("/parts/{number}", put(never));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, arrivals)
}

/// A list of some MiB.
fn long_rows(bytes: usize) -> Vec<u8> {
    let row = |i: usize| format!("https://example.com/{i:08}/{}\n", "x".repeat(2_000));
    (0..bytes / 2_000).flat_map(|i| row(i).into_bytes()).collect()
}

#[tokio::test]
async fn an_interrupted_upload_says_how_to_go_on() {
    let dir = TempDir::new().unwrap();
    let list = dir.path().join("my urls.txt");
    std::fs::write(&list, long_rows(5 * MIB / 2)).unwrap();
    let (url, mut arrivals) = silent_server().await;
    let mut command = conveyor();
    command.args(["submit", list.to_str().unwrap(), "--part-bytes", "1048576"]);
    command.env("CONVEYOR_SERVER", &url).env("CONVEYOR_API_KEY", KEY);
    let child = Process::spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()));
    tokio::time::timeout(DEADLINE, arrivals.recv()).await.unwrap().unwrap();
    child.signal(Signal::INT);
    let output = tokio::task::spawn_blocking(|| child.output()).await.unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    let command = format!("conveyor submit '{}' --resume 01ARZ3NDEKTSV4RRFFQ69G5FAV", list.display());
    assert!(said.contains(&command) && said.contains("(interrupted)"), "{said}");
}
