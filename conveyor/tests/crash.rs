//! SPEC 3.1 to 3.4 on the real binary: killed at random moments, restarted, and every acknowledged job completes with
//! exact counts, nothing lost and nothing twice.

#![expect(clippy::unwrap_used, reason = "in a test, an unwrap that fails is the report")]

mod support;

use conveyor_domain::Entropy;
use serde_json::Value;
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;
use support::{Client, Process, list, urls};
use tempfile::TempDir;
use tokio::task::JoinSet;

const JOBS: usize = 20;
const TASKS: usize = 25;
const ROUNDS: u64 = 24;

fn serve(dir: &Path, gateway: &str) -> Process {
    let flags =
        ["--gateway-url", gateway, "--retry-base-ms", "20", "--retry-cap-ms", "100", "--attempts-max", "20"];
    Process::server(dir, &flags)
}

/// Submits jobs one after another from several callers at once, until all are in or the server is gone. Returns the ids
/// of those that were acknowledged.
async fn submit_all(client: Client, round: u64) -> Vec<String> {
    let mut submits = JoinSet::new();
    for caller in 0..4 {
        let client = client.clone();
        submits.spawn(async move {
            let mut acknowledged = Vec::new();
            for n in 0..JOBS / 4 {
                let body = list(&urls(&format!("r{round}/c{caller}/j{n}"), TASKS));
                match client.try_submit(&body).await {
                    Ok((201, answer)) => acknowledged.push(answer["job_id"].as_str().unwrap().to_owned()),
                    Ok((status, answer)) => panic!("{status}: {answer}"),
                    // Cut off: it may or may not have been accepted.
                    Err(_) => break,
                }
            }
            acknowledged
        });
    }
    submits.join_all().await.into_iter().flatten().collect()
}

async fn check_exact(client: &Client, job: &str) {
    let view = client.wait_for(job, &["completed"]).await;
    let stats = &view["latest_run"]["stats"];
    let expected = serde_json::json!({"total": TASKS, "completed": TASKS, "successful": TASKS, "failed": 0});
    assert_eq!(*stats, expected, "job {job}");
    let results = client.results(job).await;
    assert_eq!(results.len(), TASKS, "job {job}");
    let distinct = |field: &str| {
        results.iter().map(|r: &Value| r[field].as_str().unwrap().to_owned()).collect::<HashSet<_>>().len()
    };
    assert_eq!((distinct("task_id"), distinct("url")), (TASKS, TASKS), "job {job}");
    for result in &results {
        assert_eq!(result["status"], "successful");
        let (status, body) = client.text(result["result_url"].as_str().unwrap()).await;
        assert_eq!(status, 200);
        let target = result["url"].as_str().unwrap();
        assert!(body.contains(target), "the body of another task: {body:.200} instead of {target}");
    }
}

/// Every job that the server knows, acknowledged or not.
async fn all_jobs(client: &Client) -> Vec<String> {
    let (status, page) = client.get("/v1/jobs?limit=100").await;
    assert_eq!(status, 200, "{page}");
    assert!(page["next_cursor"].is_null(), "more jobs than were submitted");
    page["jobs"].as_array().unwrap().iter().map(|j| j["job_id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acknowledged_job_completes_exactly_whenever_the_process_is_killed() {
    let gateway = Process::gateway(&["--latency-ms", "3", "--jitter-ms", "20", "--fail-ratio", "0.05"]);
    let mut acknowledged_in_all = 0;
    for round in 0..support::rounds(ROUNDS) {
        let chance = Entropy::from_number(round);
        let dir = TempDir::new().unwrap();
        let server = serve(dir.path(), &gateway.url);
        let submits = tokio::spawn(submit_all(Client::new(&server), round));
        // Early rounds die among the submits, later ones in the drain.
        let latest = if support::on_aws() { 400 + 2_000 * round } else { 40 + 25 * round };
        tokio::time::sleep(Duration::from_millis(chance.below(latest))).await;
        server.kill();
        let acknowledged = submits.await.unwrap();
        for _ in 0..chance.below(3) {
            let server = serve(dir.path(), &gateway.url);
            tokio::time::sleep(Duration::from_millis(chance.below(300))).await;
            server.kill();
        }
        let server = serve(dir.path(), &gateway.url);
        let client = Client::new(&server);
        let known = all_jobs(&client).await;
        for job in &acknowledged {
            assert!(known.contains(job), "round {round}: acknowledged job {job} is lost");
        }
        for job in &known {
            check_exact(&client, job).await;
        }
        acknowledged_in_all += acknowledged.len();
        server.stop().await;
    }
    // Otherwise the test showed nothing.
    let least = if support::on_aws() { JOBS / 2 } else { JOBS };
    assert!(acknowledged_in_all > least, "only {acknowledged_in_all} jobs were acknowledged in all rounds");
}
