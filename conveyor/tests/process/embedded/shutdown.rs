//! A second signal. On AWS each role is a process of its own: `aws::shutdown`.

use crate::support::{self, Client, DEADLINE, Gateway, Signal, until, urls};
use tempfile::TempDir;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_it_at_once() {
    let (gateway, dir) = (Gateway::start(0).await, TempDir::new().unwrap());
    // Longer than the test waits: it does not end by itself.
    let flags = ["--gateway-url", &gateway.url, "--shutdown-grace-ms", "600000"];
    let server = support::embedded(dir.path(), &flags);
    let client = Client::new(&server);
    client.submit(&urls("hangs", 1)).await;
    until("the task is in flight", async || gateway.in_flight() == 1).await;
    server.signal(Signal::INT);
    until("the server is shutting down", async || client.is_shutting_down().await).await;
    server.signal(Signal::INT);
    assert_eq!(server.wait(DEADLINE).await.code(), Some(1));
}
