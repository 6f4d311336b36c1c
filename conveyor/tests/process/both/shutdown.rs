//! SIGTERM: work in flight settles, what cannot wait is released, and nothing is lost.

use crate::support::{self, Client, DEADLINE, Gateway, Signal, until, urls};
use tempfile::TempDir;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_flight_settles_before_the_process_ends() {
    let (gateway, dir) = (Gateway::start(0).await, TempDir::new().unwrap());
    // The answers come when the shutdown has begun, however long that takes.
    let flags = ["--gateway-url", &gateway.url, "--shutdown-grace-ms", "170000"];
    let server = support::server(dir.path(), &flags);
    let client = Client::new(&server);
    let job = client.submit(&urls("settle", 10)).await;
    until("all tasks are in flight", async || gateway.in_flight() == 10).await;
    server.signal(Signal::TERM);
    // A cluster signals its workers first.
    until("the server is shutting down", async || client.is_shutting_down().await).await;
    gateway.open();
    assert!(server.wait(DEADLINE).await.success(), "a graceful stop exits with 0");
    // Nothing has to be done again.
    let server = support::server(dir.path(), &flags);
    let done = Client::new(&server).wait_for(&job, &["completed"]).await;
    assert_eq!(done["latest_run"]["stats"]["successful"], 10);
    assert_eq!(gateway.calls_in_all(), 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_settle_in_time_is_released_and_burns_no_attempt() {
    let (gateway, dir) = (Gateway::start(0).await, TempDir::new().unwrap());
    let flags = ["--gateway-url", &gateway.url, "--shutdown-grace-ms", "200"];
    let server = support::server(dir.path(), &flags);
    let job = Client::new(&server).submit(&urls("slow", 3)).await;
    until("all tasks are in flight", async || gateway.in_flight() == 3).await;
    server.stop().await;
    until("nobody waits for an answer", async || gateway.in_flight() == 0).await;
    gateway.open();
    let server = support::server(dir.path(), &flags);
    let client = Client::new(&server);
    client.wait_for(&job, &["completed"]).await;
    assert_eq!(gateway.calls_in_all(), 6, "each was called in both lives");
    for result in client.results(&job).await {
        let task = result["task_id"].as_str().unwrap();
        let (_, history) = client.get(&format!("/v1/jobs/{job}/tasks/{task}/history")).await;
        let attempts: Vec<_> =
            history["events"].as_array().unwrap().iter().map(|e| e["attempt"].as_u64().unwrap()).collect();
        assert_eq!(attempts, [1]);
    }
}
