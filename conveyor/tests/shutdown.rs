//! SIGTERM and SIGINT: work in flight settles, what cannot wait is released, and nothing is lost.

#![expect(clippy::unwrap_used, reason = "in a test, an unwrap that fails is the report")]

mod support;

use std::time::Duration;
use support::{Client, DEADLINE, Process, until, urls};
use tempfile::TempDir;

async fn in_flight(gateway: &Process) -> u64 {
    let client = Client::new(gateway);
    client.get("/_stats").await.1["in_flight"].as_u64().unwrap()
}

#[tokio::test]
async fn what_is_in_flight_settles_before_the_process_ends() {
    let (gateway, dir) = (Process::gateway(&["--latency-ms", "400"]), TempDir::new().unwrap());
    let server = Process::server(dir.path(), &["--gateway-url", &gateway.url]);
    let client = Client::new(&server);
    let job = client.submit(&urls("settle", 10)).await;
    until("all tasks are in flight", async || in_flight(&gateway).await == 10).await;
    server.stop().await;
    // Nothing has to be done again.
    let server = Process::server(dir.path(), &["--gateway-url", &gateway.url]);
    let done = Client::new(&server).wait_for(&job, &["completed"]).await;
    assert_eq!(done["latest_run"]["stats"]["successful"], 10);
    assert_eq!(Client::new(&gateway).get("/_stats").await.1["repeated_urls"], 0);
}

#[tokio::test]
async fn what_cannot_settle_in_time_is_released_and_burns_no_attempt() {
    let (gateway, dir) = (Process::gateway(&[]), TempDir::new().unwrap());
    let flags = ["--gateway-url", &gateway.url, "--shutdown-grace-ms", "200"];
    let server = Process::server(dir.path(), &flags);
    let client = Client::new(&server);
    let slow: Vec<String> = (0..3).map(|i| format!("https://example.com/slow/2000?n={i}")).collect();
    let job = client.submit(&slow).await;
    until("all tasks are in flight", async || in_flight(&gateway).await == 3).await;
    server.stop().await;
    let server = Process::server(dir.path(), &flags);
    let client = Client::new(&server);
    client.wait_for(&job, &["completed"]).await;
    for result in client.results(&job).await {
        let task = result["task_id"].as_str().unwrap();
        let (_, history) = client.get(&format!("/v1/jobs/{job}/tasks/{task}/history")).await;
        let attempts: Vec<_> =
            history["events"].as_array().unwrap().iter().map(|e| e["attempt"].as_u64().unwrap()).collect();
        assert_eq!(attempts, [1]);
    }
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let (gateway, dir) = (Process::gateway(&[]), TempDir::new().unwrap());
    let server =
        Process::server(dir.path(), &["--gateway-url", &gateway.url, "--shutdown-grace-ms", "600000"]);
    let client = Client::new(&server);
    client.submit(&["https://example.com/hang".to_owned()]).await;
    until("the task is in flight", async || in_flight(&gateway).await == 1).await;
    server.signal("INT");
    let ready = format!("{}/readyz", server.url);
    let http = conveyor_outbound::client_builder().no_proxy().build().unwrap();
    until("the server says that it is shutting down", async || {
        http.get(&ready).send().await.map_or(true, |answer| answer.status() == 503)
    })
    .await;
    server.signal("INT");
    assert_eq!(server.wait(Duration::from_secs(5).min(DEADLINE)).await.code(), Some(1));
}
