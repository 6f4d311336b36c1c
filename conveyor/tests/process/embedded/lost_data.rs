//! A data directory that is deleted, moved or shared under a running process (SPEC 5.1): nothing is acknowledged that
//! is not kept, and the process says why it ends.

use crate::support::{self, Client, DEADLINE, KEY, Process, conveyor, embedded_command, list, refused, urls};
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Nobody works: what is written is what is submitted.
fn api(data: &Path) -> Command {
    let mut command = conveyor();
    command.args(["api", "--listen", "127.0.0.1:0", "--api-key", KEY, "--data-dir"]).arg(data);
    command.env("CONVEYOR_LOG", "warn").stderr(Stdio::piped());
    command
}

fn said_why(output: &Output, path: &Path) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("can no longer be trusted") && text.contains(&*path.to_string_lossy()), "{text}");
}

#[tokio::test]
async fn nothing_is_acknowledged_once_the_data_is_deleted() {
    type Delete = fn(&Path) -> std::io::Result<()>;
    let deleted: [(&str, Delete); 4] = [
        ("conveyor.db", |data| fs::remove_file(data.join("conveyor.db"))),
        ("conveyor.db-wal", |data| fs::remove_file(data.join("conveyor.db-wal"))),
        // In its place another: what is there now is not what was opened.
        ("blobs", |data| {
            fs::rename(data.join("blobs"), data.join("aside"))?;
            fs::create_dir(data.join("blobs"))
        }),
        ("conveyor.db", |data| fs::remove_dir_all(data)),
    ];
    for (name, delete) in deleted {
        let dir = TempDir::new().unwrap();
        let data = dir.path().join("data");
        let server = Process::start(api(&data));
        let client = Client::new(&server);
        client.submit(&urls("before", 1)).await;
        delete(&data).unwrap();
        // It may be gone already: that is no acknowledgement either.
        if let Ok((status, answer)) = client.try_submit(&list(&urls("after", 1))).await {
            assert!(status >= 500, "{name}: acknowledged with {status}: {answer}");
        }
        said_why(&server.output(), &data.join(name));
    }
}

#[tokio::test]
async fn an_idle_process_notices_too() {
    let dir = TempDir::new().unwrap();
    let server = Process::start(api(dir.path()));
    fs::remove_file(dir.path().join("conveyor.db")).unwrap();
    said_why(&server.output(), &dir.path().join("conveyor.db"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_was_acknowledged_is_in_a_directory_that_is_moved_away() {
    let dir = TempDir::new().unwrap();
    let (data, moved) = (dir.path().join("data"), dir.path().join("moved"));
    let server = support::embedded(&data, &["--gateway-url", "null:"]);
    let client = Client::new(&server);
    let (acknowledged, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let submits: Vec<_> = (0..8)
        .map(|n| {
            let (client, acknowledged) = (client.clone(), acknowledged.clone());
            tokio::spawn(async move {
                while let Ok((201, answer)) = client.try_submit(&list(&urls(&format!("{n}"), 2))).await {
                    acknowledged.send(answer["job_id"].as_str().unwrap().to_owned()).unwrap();
                }
            })
        })
        .collect();
    drop(acknowledged);
    let mut jobs = Vec::new();
    while let Some(job) = seen.recv().await {
        jobs.push(job);
        if jobs.len() == 50 {
            fs::rename(&data, &moved).unwrap();
        }
    }
    for submit in submits {
        submit.await.unwrap();
    }
    assert_eq!(server.wait(DEADLINE).await.code(), Some(1));
    let kept = Process::start(api(&moved));
    let client = Client::new(&kept);
    for job in &jobs {
        assert_eq!(client.get(&format!("/v1/jobs/{job}")).await.0, 200, "{job} was acknowledged");
    }
}

#[tokio::test]
async fn a_second_process_is_refused_though_the_lock_file_was_deleted() {
    let dir = TempDir::new().unwrap();
    let first = support::embedded(dir.path(), &["--gateway-url", "demo:"]);
    fs::remove_file(dir.path().join("conveyor.lock")).unwrap();
    let text = refused(embedded_command(dir.path(), &["--gateway-url", "demo:"])).await;
    assert!(text.contains("in use by another process"), "{text}");
    let client = Client::new(&first);
    let job = client.submit(&urls("still-alive", 3)).await;
    client.wait_for(&job, &["completed"]).await;
}
