//! What the real worker starts and when: limits of domains, and a gateway that fails for a moment.

use crate::support::{self, Client, Process, list, until};
use conveyor_domain::limits;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::Instant;

struct System {
    client: Client,
    _server: Process,
    _dir: TempDir,
}

impl System {
    fn start(gateway: &str, flags: &[&str]) -> System {
        let dir = TempDir::new().unwrap();
        let server = support::embedded(dir.path(), &[&["--gateway-url", gateway], flags].concat());
        System { client: Client::new(&server), _server: server, _dir: dir }
    }

    async fn submit(&self, urls: &[String], more: Value) -> String {
        let mut body = list(urls);
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (status, answer) = self.client.try_submit(&body).await.unwrap();
        assert_eq!(status, 201, "{answer}");
        answer["job_id"].as_str().unwrap().to_owned()
    }

    async fn metric(&self, name: &str) -> u64 {
        let (_, text) = self.client.text(&format!("{}/metrics", self.client.url)).await;
        let of = |line: &str| line.strip_prefix(name)?.trim().parse::<f64>().ok();
        text.lines().find_map(of).map_or(0, |value| value as u64)
    }

    async fn successful(&self, job: &str) -> u64 {
        let view = self.client.wait_for(job, &["completed"]).await;
        view["latest_run"]["stats"]["successful"].as_u64().unwrap()
    }
}

/// By how much calls at these moments pass `burst + per_second * t` in the worst window.
fn worst_excess(arrivals_us: &[u64], per_second: f64, burst: f64) -> f64 {
    let (mut least, mut worst) = (f64::INFINITY, f64::NEG_INFINITY);
    for (n, at_us) in arrivals_us.iter().enumerate() {
        let ahead = n as f64 - per_second * (*at_us as f64) / 1e6;
        least = least.min(ahead);
        worst = worst.max(ahead - least + 1.0 - burst);
    }
    worst
}

#[tokio::test]
async fn limited_domains_cost_no_message_twice_and_hold_their_rates() {
    const DOMAINS: usize = 4;
    const TASKS: usize = 15;
    let gateway = support::scripted_gateway(&["--record", "--latency-ms", "5"]);
    let system = System::start(&gateway.url, &[]);
    let urls: Vec<String> = (0..TASKS * DOMAINS)
        // The first half grouped by domain, the second in turn.
        .map(|n| if n < TASKS * DOMAINS / 2 { n * 2 / TASKS } else { n % DOMAINS })
        .enumerate()
        .map(|(n, domain)| format!("https://site-{domain}.example/{n}"))
        .collect();
    let limits = json!({"domain_limits": {"*": {"per_second": 10, "burst": 4}}});
    let job = system.submit(&urls, limits).await;
    until("it says which domain it waits for, and until when", async || {
        let (_, limits) = system.client.get(&format!("/v1/jobs/{job}/limits")).await;
        let waiting = &limits["waiting"];
        let named = waiting["detail"].as_str().is_some_and(|detail| detail.contains("site-"));
        assert_ne!(waiting["reason"], "ended", "{waiting}");
        waiting["reason"] == "domain_budget" && named && waiting["until"].is_string()
    })
    .await;
    assert_eq!(system.successful(&job).await, urls.len() as u64);
    let messages = system.metric("conveyor_messages_received_total").await;
    assert!(messages >= urls.len() as u64 && 2 * messages <= 3 * urls.len() as u64, "{messages} messages");
    let (_, log) = Client::new(&gateway).get("/_log").await;
    let hosts = log["hosts"].as_object().unwrap();
    assert_eq!(hosts.len(), DOMAINS);
    for (host, arrivals) in hosts {
        let arrivals: Vec<u64> = arrivals.as_array().unwrap().iter().filter_map(Value::as_u64).collect();
        // A call may be late by what half of the burst is worth: two more in the worst window (SPEC 6.7).
        let excess = worst_excess(&arrivals, 10.0, 4.0 + 2.0);
        assert!(excess <= 0.0, "{host}: {excess} calls too many in {arrivals:?}");
    }
}

/// A full bucket starts its whole burst at once (SPEC 6.7), and then nothing for 100 s.
#[tokio::test]
async fn a_job_with_a_rate_starts_its_whole_burst_and_no_more() {
    let gateway = support::scripted_gateway(&["--record"]);
    let system = System::start(&gateway.url, &[]);
    let bursts: [usize; 2] = [2, 4];
    for burst in bursts {
        let urls: Vec<String> = (0..10).map(|n| format!("https://burst-{burst}.example/{n}")).collect();
        let rate = json!({"rate_limit": {"per_second": 0.01, "burst": burst}});
        system.submit(&urls, rate).await;
    }
    let arrivals = async || {
        let (_, log) = Client::new(&gateway).get("/_log").await;
        bursts.map(|burst| log["hosts"][format!("burst-{burst}.example")].as_array().map_or(0, Vec::len))
    };
    until("each has started its burst", async || arrivals().await.iter().sum::<usize>() >= 6).await;
    // Another job begins and ends: so the worker had its chance to start more of these.
    let other = system.submit(&["https://other.example/".to_owned()], json!({})).await;
    assert_eq!(system.successful(&other).await, 1);
    assert_eq!(arrivals().await, bursts);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Calls wait.
    Hold,
    /// Connections of calls that wait break.
    Break,
    /// Calls that wait go on waiting, new ones are answered.
    AnswerNew,
    Answer,
}

/// A gateway on a socket of its own that can break every connection it has at once.
struct Gateway {
    url: String,
    mode: watch::Sender<Mode>,
    calls: Arc<[AtomicUsize; 2]>,
}

impl Gateway {
    async fn start() -> Gateway {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (mode, seen) = watch::channel(Mode::Hold);
        let calls: Arc<[AtomicUsize; 2]> = Arc::default();
        let counts = calls.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, seen.clone(), counts.clone()));
            }
        });
        Gateway { url, mode, calls }
    }

    /// Calls so far of the first job, and of the other.
    fn calls(&self) -> [usize; 2] {
        [0, 1].map(|n| self.calls[n].load(Ordering::SeqCst))
    }
}

async fn answer(mut stream: TcpStream, mut mode: watch::Receiver<Mode>, calls: Arc<[AtomicUsize; 2]>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let other = usize::from(!String::from_utf8_lossy(&head).contains("one.example"));
    // A call that comes after the connections broke waits for what is next.
    mode.mark_unchanged();
    calls[other].fetch_add(1, Ordering::SeqCst);
    let asked_in = *mode.borrow();
    if !matches!(asked_in, Mode::Answer | Mode::AnswerNew) {
        let answered_in = mode.wait_for(|now| *now != asked_in && *now != Mode::AnswerNew).await;
        if answered_in.map_or(true, |now| *now == Mode::Break) {
            return;
        }
    }
    let page = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\npage";
    let _ = stream.write_all(page).await;
}

#[tokio::test]
async fn a_hundred_calls_that_break_at_once_are_one_outage_and_one_call_probes() {
    let gateway = Gateway::start().await;
    let flags = ["--retry-base-ms", "10", "--retry-cap-ms", "50", "--attempts-max", "20"];
    let system = System::start(&gateway.url, &flags);
    let urls = |host: &str, count| (0..count).map(|n| format!("https://{host}.example/{n}")).collect();
    let one: Vec<String> = urls("one", 150);
    let job = system.submit(&one, json!({"max_inflight": 100})).await;
    until("a hundred calls are in flight", async || gateway.calls() == [100, 0]).await;
    gateway.mode.send(Mode::Break).unwrap();
    let broken = Instant::now();
    until("a call probes", async || gateway.calls()[0] > 100).await;
    // Another job starts what it may: so the worker had its chance to start more of the first one.
    let two: Vec<String> = urls("two", 5);
    let other = system.submit(&two, json!({})).await;
    until("the other job has started", async || gateway.calls()[1] == 5).await;
    let probes = gateway.calls()[0] - 100;
    let most = 1 + broken.elapsed().as_secs() / limits::GATEWAY_PROBE_EVERY.as_secs();
    assert!(probes as u64 <= most, "{probes} started before a probe was answered, not {most}");
    let backoffs = system.metric("conveyor_gateway_backoffs_total").await;
    assert_eq!(backoffs, 1, "a hundred failures at once are one outage");
    gateway.mode.send(Mode::Answer).unwrap();
    assert_eq!(system.successful(&job).await, 150);
    assert_eq!(system.successful(&other).await, 5);
    assert_eq!(system.metric("conveyor_gateway_backoffs_total").await, 1);
}

#[tokio::test]
async fn a_probe_that_takes_long_does_not_hold_its_job() {
    let gateway = Gateway::start().await;
    let flags = ["--retry-base-ms", "10", "--retry-cap-ms", "50", "--attempts-max", "20"];
    let system = System::start(&gateway.url, &flags);
    let urls: Vec<String> = (0..30).map(|n| format!("https://one.example/{n}")).collect();
    let job = system.submit(&urls, json!({"max_inflight": 20})).await;
    until("twenty calls are in flight", async || gateway.calls() == [20, 0]).await;
    gateway.mode.send(Mode::Break).unwrap();
    until("a call probes", async || gateway.calls()[0] > 20).await;
    gateway.mode.send(Mode::AnswerNew).unwrap();
    let successful = async || system.client.job(&job).await["latest_run"]["stats"]["successful"].as_u64();
    until("all but the slow one are done", async || successful().await >= Some(29)).await;
    gateway.mode.send(Mode::Answer).unwrap();
    assert_eq!(system.successful(&job).await, 30);
}
