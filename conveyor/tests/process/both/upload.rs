//! Lists that are staged, as a user of the command line meets them.

use crate::support::{self, Client, KEY, Process, conveyor, run, sized};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const MIB: usize = 1024 * 1024;

/// Longer lists are staged and ingested, in chunks of this many rows.
const INLINE: usize = 100;

fn demo(dir: &Path) -> Process {
    let (inline, chunk) = (INLINE.to_string(), INLINE.to_string());
    let flags = ["--gateway-url", "demo:", "--inline-tasks-max", &inline, "--chunk-rows", &chunk];
    support::server(&dir.join("data"), &flags)
}

/// Rows of a list that is ingested.
fn many() -> usize {
    sized(3 * INLINE, 12_000)
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
    // Over 1 MiB it is uploaded, however few its rows.
    let (bytes, urls) = large(sized(10, 100) * MIB);
    let (list, rows) = (write(&dir, "urls.txt", &bytes), urls.len());
    let submitted = done(&server, &["submit", list.to_str().unwrap(), "--watch"]);
    let job = text(&submitted.stdout).lines().next().unwrap().to_owned();
    assert!(text(&submitted.stderr).contains("read as lines"), "{submitted:?}");
    let shown = text(&done(&server, &["status", &job]).stdout);
    assert!(shown.contains(&format!("{rows} read, {rows} accepted, 0 rejected")), "{shown}");
    let stats = &json(&done(&server, &["status", &job, "--json"]))["latest_run"]["stats"];
    assert_eq!((&stats["total"], &stats["successful"]), (&json!(rows), &json!(rows)));
    let results = Client::new(&server).results(&job).await;
    let found: Vec<_> = results.iter().map(|task| task["url"].as_str().unwrap()).collect();
    assert_eq!(found, urls);

    let uploads = json(&done(&server, &["uploads", "--json"]));
    assert_eq!(uploads["job_inputs"][0]["status"], "claimed");
}

#[tokio::test]
async fn a_compressed_list_is_sent_as_it_is() {
    let dir = TempDir::new().unwrap();
    let server = demo(dir.path());
    let rows = many();
    let csv: String = (0..rows).map(|i| format!("{i}|https://example.com/{i}\n")).collect();
    let list = write(&dir, "list", &gzip(format!("external_id|url\n{csv}").as_bytes()));
    let watched = ["submit", list.to_str().unwrap(), "--delimiter", "|", "--watch", "--json"];
    let job = json(&done(&server, &watched));
    assert_eq!(job["latest_run"]["stats"]["successful"], rows);
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
    let (long, urls) = large(10 * MIB);
    // Longer than what is held to look at it, and not.
    for (bytes, rows) in [(long, urls.len()), (gzip(lines(many()).as_bytes()), many())] {
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
    for rows in [10, many()] {
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
    let list = write(&dir, "urls.txt.gz", &gzip(lines(many()).as_bytes()));
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
    assert!(told.contains("ingest.chunk_committed") && told.contains(&format!("rows={INLINE}")), "{told}");
}

/// A list of some MiB and few rows: most of it is comments.
fn large(bytes: usize) -> (Vec<u8>, Vec<String>) {
    let (mut list, mut urls) = (Vec::new(), Vec::new());
    while list.len() < bytes {
        let url = format!("https://example.com/{}", urls.len());
        list.extend(format!("{url}\n#{}\n", "x".repeat(50_000)).into_bytes());
        urls.push(url);
    }
    (list, urls)
}

#[tokio::test]
async fn an_upload_in_parts_goes_on_where_it_broke_off() {
    let dir = TempDir::new().unwrap();
    let server = demo(dir.path());
    // Where parts go straight to S3, it has a say in their size.
    let part = if support::on_aws() { 5 * MIB } else { MIB };
    let part_bytes = part.to_string();
    let (bytes, urls) = large(5 * part / 2);
    let list = write(&dir, "urls.txt", &bytes);
    let list = list.to_str().unwrap();
    let api = Client::new(&server);
    let slot = json!({"type": "lines", "size_bytes": bytes.len(), "multipart": true, "part_bytes": part});
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
    assert_eq!(job["latest_run"]["stats"]["total"], urls.len());
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
