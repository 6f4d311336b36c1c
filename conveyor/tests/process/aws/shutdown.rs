//! The second signal to a role that cannot end by itself.

use super::{Deployment, servers};
use crate::support::{Client, DEADLINE, Gateway, Signal, until, until_read, urls};
use std::io::Write;
use std::net::TcpStream;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_a_role_at_once() {
    let gateway = Gateway::start(0).await;
    // Longer than the test waits.
    let flags = ["--gateway-url", &gateway.url, "--shutdown-grace-ms", "600000"];
    let mut deployment = Deployment::prepare("signalled", &servers().await, &flags);
    deployment.start(["api", "worker"]);
    let client = deployment.client();
    client.submit(&urls("hangs", 1)).await;
    // The worker waits for the gateway, the API for the rest of a request.
    until("the task is in flight", async || gateway.in_flight() == 1).await;
    let mut half = TcpStream::connect(client.url.strip_prefix("http://").unwrap()).unwrap();
    half.write_all(b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\n").unwrap();
    until_read(&half).await;
    for (role, process) in std::mem::take(&mut deployment.roles) {
        let client = Client::new(&process);
        process.signal(Signal::INT);
        until("it is shutting down", async || client.is_shutting_down().await).await;
        process.signal(Signal::INT);
        assert_eq!(process.wait(DEADLINE).await.code(), Some(1), "{role}");
    }
}
