//! SPEC 6.11 on the real binary: killed at random moments while a list is read, again and again, and the list still becomes
//! exactly its tasks, each done once.

#![expect(clippy::unwrap_used, reason = "in a test, an unwrap that fails is the report")]

mod support;

use conveyor_domain::Entropy;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use support::{Client, DEADLINE, Process};
use tempfile::TempDir;
use tokio::time::Instant;

const LONG: usize = 200_000;
const SHORT: usize = 12_000;
const SHORT_ROUNDS: u64 = 16;

fn serve(dir: &Path) -> Process {
    Process::server(dir, &["--gateway-url", "null:", "--chunk-rows", "2000"])
}

fn csv(rows: usize) -> Vec<u8> {
    let mut text = String::from("id,url\n");
    for n in 0..rows {
        text += &format!("row-{n},https://example.com/products/{n}\n");
    }
    text.into_bytes()
}

fn slot() -> Value {
    let fields = json!({"url": "url", "external_id": "id"});
    json!({"type": "csv", "csv": {"delimiter": ",", "quote": "\"", "header": true, "fields": fields}})
}

/// Uploads and submits a list; the answer is a 202 and durable.
async fn accept(server: &Process, list: Vec<u8>) -> String {
    let client = Client::new(server);
    let upload = client.upload(&slot(), list).await;
    let body = json!({"status": "closed", "file_input_id": upload, "max_inflight": 1000});
    let (status, answer) = client.post_json("/v1/jobs", &body).await;
    assert_eq!((status, &answer["latest_run"]["ingest_status"]), (202, &json!("pending")), "{answer}");
    answer["job_id"].as_str().unwrap().to_owned()
}

/// Waits until the list is read and every task is done, and checks each.
async fn check_exact(client: &Client, job: &str, rows: usize) {
    let until = Instant::now() + 4 * DEADLINE;
    let view = loop {
        let view = client.job(job).await;
        let stats = &view["latest_run"]["stats"];
        assert!(stats["completed"].as_u64() <= stats["total"].as_u64(), "{view}");
        if view["latest_run"]["status"] == "completed" {
            break view;
        }
        assert_eq!(view["latest_run"]["status"], "running", "{view}");
        assert!(Instant::now() < until, "not done: {view}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(view["latest_run"]["ingest_status"], "done");
    let exactly = json!({"total": rows, "completed": rows, "successful": rows, "failed": 0});
    assert_eq!(view["latest_run"]["stats"], exactly);
    let results = client.results_by(job, 1000).await;
    assert_eq!(results.len(), rows);
    for (n, result) in results.iter().enumerate() {
        assert_eq!(result["url"], format!("https://example.com/products/{n}"), "in input order");
        assert_eq!(
            (&result["external_id"], &result["status"]),
            (&json!(format!("row-{n}")), &json!("successful"))
        );
    }
}

async fn is_ingesting(client: &Client, job: &str) -> bool {
    client.job(job).await["latest_run"]["ingest_status"] == "pending"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_list_is_ingested_exactly_however_often_the_process_is_killed() {
    let dir = TempDir::new().unwrap();
    let chance = Entropy::from_number(3);
    let mut server = serve(dir.path());
    // A cluster takes seconds to start, and longer to read.
    let (rows, least, most) = if support::on_aws() { (LONG / 10, 3, 8) } else { (LONG, 8, 40) };
    let job = accept(&server, csv(rows)).await;
    let mut kills = 0;
    while kills < most && is_ingesting(&Client::new(&server), &job).await {
        tokio::time::sleep(Duration::from_millis(chance.below(if support::on_aws() { 1_500 } else { 160 })))
            .await;
        server.kill();
        kills += 1;
        server = serve(dir.path());
    }
    // Otherwise the test showed nothing.
    assert!(kills >= least, "the list was read after {kills} kills");
    check_exact(&Client::new(&server), &job, rows).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_around_the_end_of_a_list_leaves_it_neither_open_nor_short() {
    let list = csv(SHORT);
    let mut killed_while_ingesting = 0;
    for round in 0..support::rounds(SHORT_ROUNDS) {
        let chance = Entropy::from_number(round);
        let dir = TempDir::new().unwrap();
        let server = serve(dir.path());
        let job = accept(&server, list.clone()).await;
        // From right after the 202 to well into the drain.
        tokio::time::sleep(Duration::from_millis(chance.below(30 * (round + 1)))).await;
        server.kill();
        let server = serve(dir.path());
        killed_while_ingesting += u32::from(is_ingesting(&Client::new(&server), &job).await);
        check_exact(&Client::new(&server), &job, SHORT).await;
        server.stop().await;
    }
    assert!(killed_while_ingesting > 0, "no round was killed while its list was read");
}
