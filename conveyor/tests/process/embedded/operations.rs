//! What an operator relies on: keys that can be taken back, secrets that may be wrong, callers that are slow, runs that wait.

use crate::support::{
    self, Client, DEADLINE, Gateway, KEY, OTHER_KEY, Process, conveyor, until, until_read, urls,
};
use conveyor_domain::{KeyHash, limits};
use conveyor_testkit::eventually;
use serde_json::json;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::Instant;

fn with_key(dir: &TempDir, key: &str, flags: &[&str]) -> Process {
    Process::start(with_key_command(dir, key, flags))
}

fn with_key_command(dir: &TempDir, key: &str, flags: &[&str]) -> Command {
    let mut command = conveyor();
    command.args(["dev", "--listen", "127.0.0.1:0", "--api-key", key, "--data-dir"]).arg(dir.path());
    command.args(flags).env("CONVEYOR_LOG", "off");
    command
}

#[tokio::test]
async fn a_key_that_is_no_longer_configured_is_revoked_only_on_request() {
    let dir = TempDir::new().unwrap();
    let server = with_key(&dir, KEY, &["--gateway-url", "demo:"]);
    let job = Client::new(&server).submit(&urls("revoked", 1)).await;
    server.stop().await;
    // An older list of keys.
    let mut command = with_key_command(&dir, OTHER_KEY, &["--gateway-url", "demo:"]);
    let said = dir.path().join("stderr");
    command.env("CONVEYOR_LOG", "warn").stderr(File::create(&said).unwrap());
    let server = Process::start(command);
    Client::new(&server).wait_for(&job, &["completed"]).await;
    server.stop().await;
    let said = fs::read_to_string(said).unwrap();
    let named = &KeyHash::of(KEY).to_string()[..12];
    assert!(said.contains(named) && said.contains("--revoke-absent-keys"), "{said}");
    assert!(!said.contains(KEY) && !said.contains(&KeyHash::of(OTHER_KEY).to_string()[..12]), "{said}");
    let server = with_key(&dir, OTHER_KEY, &["--gateway-url", "demo:", "--revoke-absent-keys"]);
    let (status, problem) = Client::new(&server).get(&format!("/v1/jobs/{job}")).await;
    assert_eq!((status, &problem["code"]), (401, &json!("unauthenticated")));
    server.stop().await;
    // Given back, it is the same caller's as before.
    let server = with_key(&dir, KEY, &["--gateway-url", "demo:"]);
    Client::new(&server).wait_for(&job, &["completed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_waits_for_the_right_secret_instead_of_failing() {
    let (gateway, dir) = (Gateway::start(0).await, TempDir::new().unwrap());
    let right = "11".repeat(32);
    let start = |secret: &str| {
        with_key(&dir, KEY, &["--gateway-url", &gateway.url, "--slots", "1", "--secret-key", secret])
    };
    let server = start(&right);
    let job = Client::new(&server).submit(&urls("sealed", 5)).await;
    server.kill();
    until("nothing is in flight", async || gateway.in_flight() == 0).await;
    gateway.open();
    let before = gateway.calls_in_all();
    let server = start(&"22".repeat(32));
    // Another job, under the wrong secret, works: so the worker had its chance at the first one too.
    let other = Client::new(&server).submit(&urls("other", 1)).await;
    Client::new(&server).wait_for(&other, &["completed"]).await;
    let waiting = Client::new(&server).job(&job).await;
    assert_eq!((&waiting["latest_run"]["status"], gateway.calls_in_all()), (&json!("running"), before + 1));
    server.stop().await;
    let server = start(&right);
    let done = Client::new(&server).wait_for(&job, &["completed"]).await;
    assert_eq!(done["latest_run"]["stats"]["successful"], 5);
}

#[tokio::test]
async fn runs_that_only_wait_cost_no_commits() {
    let (gateway, dir) = (support::scripted_gateway(&[]), TempDir::new().unwrap());
    let server = support::embedded(dir.path(), &["--gateway-url", &gateway.url]);
    let client = Client::new(&server);
    let waiting = "https://example.com/status/429?retry_after=300".to_owned();
    for _ in 0..50 {
        client.submit(std::slice::from_ref(&waiting)).await;
    }
    until("every task waits for its retry", async || {
        let stats = Client::new(&gateway).get("/_stats").await.1;
        stats["calls"] == 50 && stats["in_flight"] == 0
    })
    .await;
    let commits = async || {
        let (_, text) = client.text(&format!("{}/metrics", client.url)).await;
        let line = text.lines().find(|l| l.starts_with("conveyor_commits_total")).unwrap().to_owned();
        line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    // Shares that were used are given back once. After that nothing is written, over more than the time in which a share that
    // is held would be renewed.
    let longer_than_a_renewal = limits::GRANT_RENEW_EVERY + Duration::from_secs(1);
    let (mut last, mut since) = (commits().await, Instant::now());
    let deadline = Instant::now() + DEADLINE;
    while since.elapsed() < longer_than_a_renewal {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let now = commits().await;
        if now != last {
            (last, since) = (now, Instant::now());
        }
        assert!(Instant::now() < deadline, "something is written again and again");
    }
}

#[tokio::test]
async fn a_request_that_is_never_finished_does_not_hold_up_the_end() {
    let dir = TempDir::new().unwrap();
    let server = with_key(&dir, KEY, &["--gateway-url", "demo:", "--shutdown-grace-ms", "500"]);
    let address = server.url.strip_prefix("http://").unwrap();
    let mut half = TcpStream::connect(address).unwrap();
    half.write_all(b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\n").unwrap();
    // Before that the connection is idle, and nothing would hold up the end.
    until_read(&half).await;
    server.stop().await;
    half.set_read_timeout(Some(DEADLINE)).unwrap();
    let closed = half.read_to_end(&mut Vec::new());
    let was_reset = |error: &std::io::Error| error.kind() == ErrorKind::ConnectionReset;
    assert!(closed.as_ref().map_or_else(was_reset, |_| true), "the connection was left open: {closed:?}");
}

#[tokio::test]
async fn a_worker_alone_tells_its_health_and_nothing_else() {
    let dir = TempDir::new().unwrap();
    let mut command = conveyor();
    command
        .args(["worker", "--listen", "127.0.0.1:0", "--gateway-url", "null:", "--data-dir"])
        .arg(dir.path());
    let worker = Process::start(command);
    let client = Client::new(&worker);
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(client.text(&format!("{}{path}", worker.url)).await.0, 200, "{path}");
    }
    assert_eq!(client.get("/v1/jobs").await.0, 404);
    worker.stop().await;
}

#[tokio::test]
async fn an_answer_that_needs_no_body_keeps_the_connection_or_says_that_it_ends() {
    let dir = TempDir::new().unwrap();
    let server = with_key(&dir, KEY, &["--gateway-url", "demo:"]);
    let head = |more: &str, length: usize| {
        format!(
            "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nX-API-Key: wrong\r\nContent-Length: {length}\r\n{more}\r\n"
        )
    };
    let connect = || {
        let stream = TcpStream::connect(server.url.trim_start_matches("http://")).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream
    };

    // The body comes late: an answer that did not wait for it would close the connection under the second request. The
    // server waits for a limited time; a test that took longer says nothing, and begins again on a new connection.
    eventually("three bodies in time on one connection", async || {
        let mut stream = connect();
        for _ in 0..3 {
            let began = Instant::now();
            stream.write_all(head("", 10).as_bytes()).unwrap();
            until_read(&stream).await;
            // The server may have closed it by now.
            let sent = stream.write_all(b"0123456789");
            if began.elapsed() >= limits::UNREAD_TIMEOUT {
                return None;
            }
            sent.unwrap();
            let answer = answer_head(&mut stream);
            assert!(answer.starts_with("http/1.1 401") && !answer.contains("connection: close"), "{answer}");
        }
        Some(())
    })
    .await;

    // Too long to be thrown away, never sent, or only sent if somebody wants it.
    for (more, length) in [("", 1 << 30), ("", 10), ("Expect: 100-continue\r\n", 10)] {
        let mut stream = connect();
        stream.write_all(head(more, length).as_bytes()).unwrap();
        let answer = answer_head(&mut stream);
        assert!(answer.starts_with("http/1.1 401") && answer.contains("connection: close"), "{answer}");
    }
    server.stop().await;
}

/// The head of the next answer, in lower case; its body is read as well.
fn answer_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("an answer");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("text").to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
    let mut body = vec![0; length.parse().expect("a number")];
    stream.read_exact(&mut body).expect("its body");
    head
}

/// A busy machine makes an estimate wrong by less than this. What is wrong with it made it wrong by 240.
const OFF_BY_MAX: f64 = 20.0;

#[tokio::test]
async fn a_dry_run_after_a_drain_says_about_what_the_drain_took() {
    let dir = TempDir::new().unwrap();
    let server = with_key(&dir, KEY, &["--gateway-url", "demo:"]);
    let (client, urls) = (Client::new(&server), urls("estimated", 2_000));
    let mut ratios = Vec::new();
    // A machine that stalls during one drain does not stall during all of them.
    while ratios.len() < 3 {
        let began = Instant::now();
        let job = client.submit(&urls).await;
        client.wait_for(&job, &["completed"]).await;
        let took = began.elapsed().as_secs_f64();
        let (status, report) = client.post_json("/v1/jobs?dry_run=true", &support::list(&urls)).await;
        assert_eq!((status, &report["estimate"]["assumes"]["basis"]), (200, &json!("measured")), "{report}");
        let ratio = report["estimate"]["seconds"].as_f64().unwrap() / took;
        if (1.0 / OFF_BY_MAX..=OFF_BY_MAX).contains(&ratio) {
            return;
        }
        ratios.push(ratio);
    }
    panic!("estimates were off by {ratios:?}");
}
