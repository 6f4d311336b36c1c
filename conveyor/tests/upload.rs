//! Lists that are staged, as a user of the command line meets them.

#![expect(clippy::unwrap_used, reason = "in a test, an unwrap that fails is the report")]

mod support;

use axum::extract::Path as InPath;
use axum::routing::{post, put};
use axum::{Json, Router};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use support::{Client, KEY, Process, conveyor, run};
use tempfile::TempDir;

const MIB: usize = 1024 * 1024;

fn demo(dir: &Path) -> Process {
    Process::server(&dir.join("data"), &["--gateway-url", "demo:"])
}

fn client(server: &str, args: &[&str]) -> Command {
    let mut command = conveyor();
    command.args(args).env("CONVEYOR_SERVER", server).env("CONVEYOR_API_KEY", KEY);
    command
}

fn done(server: &Process, args: &[&str]) -> Output {
    let output = run(client(&server.url, args));
    assert!(output.status.success(), "{output:?}");
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("not one JSON document: {output:?}"))
}

fn write(dir: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn lines(rows: usize) -> String {
    (0..rows).map(|i| format!("https://example.com/{i}\n")).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

#[tokio::test]
async fn a_long_list_is_uploaded_read_and_drained() {
    let dir = TempDir::new().unwrap();
    let server = demo(dir.path());
    let list = write(&dir, "urls.txt", lines(12_000).as_bytes());
    let submitted = done(&server, &["submit", list.to_str().unwrap(), "--watch"]);
    let job = text(&submitted.stdout).lines().next().unwrap().to_owned();
    assert!(text(&submitted.stderr).contains("read as lines"), "{submitted:?}");
    let shown = text(&done(&server, &["status", &job]).stdout);
    assert!(shown.contains("12000 read, 12000 accepted, 0 rejected"), "{shown}");
    let stats = &json(&done(&server, &["status", &job, "--json"]))["latest_run"]["stats"];
    assert_eq!((&stats["total"], &stats["successful"]), (&json!(12_000), &json!(12_000)));
    let results = Client::new(&server).results(&job).await;
    assert_eq!(results.len(), 12_000);
    assert!(results.iter().enumerate().all(|(i, task)| task["url"] == format!("https://example.com/{i}")));

    let uploads = json(&done(&server, &["uploads", "--json"]));
    assert_eq!(uploads["job_inputs"][0]["status"], "claimed");
}

#[tokio::test]
async fn a_compressed_list_is_sent_as_it_is() {
    let dir = TempDir::new().unwrap();
    let server = demo(dir.path());
    let csv: String = (0..11_000).map(|i| format!("{i}|https://example.com/{i}\n")).collect();
    let list = write(&dir, "list", &gzip(format!("external_id|url\n{csv}").as_bytes()));
    let watched = ["submit", list.to_str().unwrap(), "--delimiter", "|", "--watch", "--json"];
    let job = json(&done(&server, &watched));
    assert_eq!(job["latest_run"]["stats"]["successful"], 11_000);
    let results = Client::new(&server).results(job["job_id"].as_str().unwrap()).await;
    assert_eq!(
        (&results[7]["external_id"], &results[7]["url"]),
        (&json!("7"), &json!("https://example.com/7"))
    );
}

#[tokio::test]
async fn standard_input_is_streamed() {
    let dir = TempDir::new().unwrap();
    let server = demo(dir.path());
    let long = long_rows(5 * MIB / 2);
    let rows = long.iter().filter(|b| **b == b'\n').count() + 1;
    // Longer than what is held to look at it, and not.
    for (bytes, rows) in [(long, rows), (gzip(lines(10_500).as_bytes()), 10_500)] {
        let mut command = client(&server.url, &["submit", "-", "--watch", "--json"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let writing = std::thread::spawn(move || stdin.write_all(&bytes));
        let output = child.wait_with_output().unwrap();
        writing.join().unwrap().unwrap();
        assert_eq!(json(&output)["latest_run"]["stats"]["total"], rows, "{output:?}");
    }
}

#[tokio::test]
async fn rejected_rows_are_told_and_shown() {
    let dir = TempDir::new().unwrap();
    let server = demo(dir.path());
    // Read on the request, and by the ingester.
    for rows in [10, 12_000] {
        let list =
            write(&dir, "urls.txt", format!("{}not a url\nftp://example.com/x\n", lines(rows)).as_bytes());
        let list = list.to_str().unwrap();
        let submitted = done(&server, &["submit", list, "--on-invalid-rows", "skip", "--watch"]);
        let job = text(&submitted.stdout).lines().next().unwrap().to_owned();
        let said = text(&submitted.stderr);
        assert!(said.contains(&format!("2 rows were rejected; `conveyor rejected {job}`")), "{said}");

        let report = text(&done(&server, &["rejected", &job]).stdout);
        let report: Vec<Value> = report.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&report[0]["line"], &report[0]["reason"]), (&json!(rows + 1), &json!("malformed_url")));
        assert_eq!(
            (&report[1]["line"], &report[1]["reason"]),
            (&json!(rows + 2), &json!("unsupported_scheme"))
        );
        assert_eq!(json(&done(&server, &["rejected", &job, "--json"]))["rejected"], json!(report));
        let out = dir.path().join("rejected.csv");
        done(&server, &["rejected", &job, "--format", "csv", "--out", out.to_str().unwrap()]);
        assert_eq!(std::fs::read_to_string(out).unwrap().lines().count(), 3);

        let failed = run(client(&server.url, &["submit", list, "--on-invalid-rows", "fail", "--watch"]));
        assert_eq!(failed.status.code(), Some(1), "{failed:?}");
        let said = text(&failed.stdout) + &text(&failed.stderr);
        assert!(said.contains("invalid_rows"), "{said}");
        if rows == 10 {
            assert!(said.contains(&format!("{list}:11: malformed_url")), "{said}");
        }
    }
    let inline = text(&done(&server, &["submit", "https://example.com/"]).stdout);
    assert_eq!(text(&done(&server, &["rejected", inline.trim()]).stdout), "");
}

#[tokio::test]
async fn events_are_told_and_followed_to_the_end_of_the_run() {
    let dir = TempDir::new().unwrap();
    let server = demo(dir.path());
    let list = write(&dir, "urls.txt", lines(12_000).as_bytes());
    let submitted = done(&server, &["submit", list.to_str().unwrap()]);
    let job = text(&submitted.stdout).trim().to_owned();
    let followed = text(&done(&server, &["events", &job, "--follow", "--json"]).stdout);
    let followed: Vec<Value> = followed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let numbers: Vec<u64> = followed.iter().map(|event| event["id"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "all of them, in order, once");
    assert_eq!(followed.last().unwrap()["type"], "run.completed");
    assert_eq!(json(&done(&server, &["events", &job, "--json"]))["events"], json!(followed));
    let told = text(&done(&server, &["events", &job]).stdout);
    assert_eq!(told.lines().count(), followed.len());
    assert!(told.contains("ingest.chunk_committed") && told.contains("rows=5000"), "{told}");
}

/// A list of some MiB that is quickly read: its rows are long.
fn long_rows(bytes: usize) -> Vec<u8> {
    let row = |i: usize| format!("https://example.com/{i:08}/{}\n", "x".repeat(2_000));
    let mut list: Vec<u8> = (0..bytes / 2_000).flat_map(|i| row(i).into_bytes()).collect();
    list.truncate(bytes);
    list
}

#[tokio::test]
async fn an_upload_in_parts_goes_on_where_it_broke_off() {
    let dir = TempDir::new().unwrap();
    let server = demo(dir.path());
    // Where parts go straight to S3, it has a say in their size.
    let part = if support::on_aws() { 5 * MIB } else { MIB };
    let part_bytes = part.to_string();
    let bytes = long_rows(5 * part / 2);
    let list = write(&dir, "urls.txt", &bytes);
    let list = list.to_str().unwrap();
    let api = Client::new(&server);
    let slot = json!({"type": "lines", "size_bytes": bytes.len(), "multipart": true});
    let (_, slot) = api.post_json("/v1/job_inputs", &slot).await;
    let upload = slot["file_input_id"].as_str().unwrap();
    let (_, signed) =
        api.post_json(&format!("/v1/job_inputs/{upload}/parts"), &json!({"numbers": [2]})).await;
    let put = conveyor_outbound::client_builder()
        .no_proxy()
        .build()
        .unwrap()
        .put(signed["parts"][0]["url"].as_str().unwrap());
    let sent = put.body(bytes[part..2 * part].to_vec()).send().await.unwrap();
    assert!(sent.status().is_success(), "{sent:?}");

    let resume = ["submit", list, "--part-bytes", &part_bytes, "--resume", upload, "--watch", "--json"];
    let job = json(&done(&server, &resume));
    assert_eq!(job["latest_run"]["stats"]["total"], bytes.iter().filter(|b| **b == b'\n').count() + 1);
    let again = run(client(&server.url, &resume));
    let problem: Value = serde_json::from_slice(&again.stderr).unwrap();
    assert_eq!((again.status.code(), &problem["code"]), (Some(1), &json!("not_resumable")), "one job of it");

    // Anew: the server does not keep a connection for as long as that took, and nobody here looked at it meanwhile.
    let api = Client::new(&server);
    let (_, slot) = api.post_json("/v1/job_inputs", &json!({"type": "lines"})).await;
    let upload = slot["file_input_id"].as_str().unwrap();
    done(&server, &["uploads", "--abort", upload]);
    let unknown = run(client(&server.url, &["submit", list, "--resume", upload, "--json"]));
    let problem: Value = serde_json::from_slice(&unknown.stderr).unwrap();
    assert_eq!(problem["code"], "file_input_not_found");
}

/// A server that takes no part: for an upload that can only be interrupted.
async fn silent_server() -> (String, tokio::sync::mpsc::Receiver<u32>) {
    let (arrived, arrivals) = tokio::sync::mpsc::channel(8);
    let slot = json!({"file_input_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "multipart": {"parts_max": 1000}});
    let sign = async |Json(body): Json<Value>| {
        let number = &body["numbers"][0];
        Json(json!({"parts": [{"number": number, "method": "PUT", "url": format!("/parts/{number}")}]}))
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

#[tokio::test]
async fn an_interrupted_upload_says_how_to_go_on() {
    let dir = TempDir::new().unwrap();
    let list = write(&dir, "my urls.txt", &long_rows(5 * MIB / 2));
    let (url, mut arrivals) = silent_server().await;
    let mut command = client(&url, &["submit", list.to_str().unwrap(), "--part-bytes", "1048576"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    arrivals.recv().await.unwrap();
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
    let output = tokio::task::spawn_blocking(|| child.wait_with_output().unwrap()).await.unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = text(&output.stderr);
    let command = format!("conveyor submit '{}' --resume 01ARZ3NDEKTSV4RRFFQ69G5FAV", list.display());
    assert!(said.contains(&command) && said.contains("(interrupted)"), "{said}");
}
