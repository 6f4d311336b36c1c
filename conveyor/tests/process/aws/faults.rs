//! Services that throttle, lose requests and answers, answer in part, late, or not at all.

use super::deployment::page;
use super::{Deployment, ROLES, servers};
use crate::support::{self, Client, Gateway, KEY, Process, sized, until, until_fits};
use conveyor_aws_servers::Environment;
use serde_json::{Value, json};
use std::fs::File;
use std::time::Duration;
use tempfile::TempDir;

pub const SERVICES: [&str; 3] = ["dynamodb", "sqs", "s3"];
/// Short, so that a call that gets no answer ends within the test.
const TIMEOUTS: [&str; 4] = ["--aws-attempt-timeout-ms", "2000", "--aws-call-timeout-ms", "4000"];
/// Longer than all tries of a call. Calls that move an object have longer timeouts, and wait instead.
const BLOCKED_MS: u64 = 4_500;

/// A proxy in front of every service.
pub struct Proxies {
    proxies: Vec<Process>,
    http: reqwest::Client,
}

impl Proxies {
    pub async fn start() -> (Proxies, Environment) {
        let real = servers().await;
        let upstreams = [&real.dynamodb_url, &real.sqs_url, &real.s3_url];
        let proxies =
            SERVICES.iter().zip(upstreams).map(|(service, upstream)| support::proxy(service, upstream));
        let proxies: Vec<Process> = proxies.collect();
        let [dynamodb_url, sqs_url, s3_url] = [0, 1, 2].map(|n| proxies[n].url.clone());
        let http = conveyor_outbound::client_builder().no_proxy().build().unwrap();
        (Proxies { proxies, http }, Environment { dynamodb_url, sqs_url, s3_url })
    }

    pub async fn order(&self, service: usize, faults: &Value) {
        let request = self.http.put(format!("{}/faults", self.proxies[service].control)).json(faults);
        let answer = request.send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    }

    async fn stats(&self, service: usize) -> Value {
        let stats = self.http.get(format!("{}/stats", self.proxies[service].control)).send().await.unwrap();
        stats.json().await.unwrap()
    }

    /// How many calls of an operation there were.
    pub async fn calls(&self, service: usize, operation: &str) -> u64 {
        self.stats(service).await["calls"][operation].as_u64().unwrap_or(0)
    }

    /// How many calls met a fault.
    pub async fn seen(&self, service: usize, fault: &str) -> u64 {
        let stats = self.stats(service).await;
        match fault {
            // Every call is late: it counts as one that arrived.
            DELAY => stats["calls"].as_object().unwrap().values().filter_map(Value::as_u64).sum(),
            _ => stats["faults"][fault].as_u64().unwrap_or(0),
        }
    }
}

const DELAY: &str = "delay";

/// What goes wrong, the counts that tell that it did, and for how long it lasts after that.
struct Trouble {
    faults: Value,
    counted: &'static [&'static str],
    lasts: Duration,
}

fn troubles(service: usize) -> Vec<Trouble> {
    let trouble =
        |faults, counted, lasts_ms| Trouble { faults, counted, lasts: Duration::from_millis(lasts_ms) };
    let special = match SERVICES[service] {
        "dynamodb" => trouble(json!({"conflict": 0.2, "partial": 0.2}), &["conflict", "partial"][..], 500),
        "sqs" => trouble(json!({"partial": 0.2}), &["partial"], 500),
        _ => trouble(json!({"delay_ms": [0, 200]}), &[DELAY], 1_000),
    };
    vec![
        trouble(json!({"throttle": 0.3}), &["throttle"], 500),
        trouble(json!({"drop_answers": 0.1, "drop_requests": 0.1}), &["drop_answers", "drop_requests"], 500),
        special,
        trouble(json!({"blocked": true}), &["blocked"], BLOCKED_MS),
    ]
}

/// In every trouble one list is read and drained, and another one goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_service_can_fail_in_every_way() {
    let (long, short) = (sized(600, 20_000), sized(60, 1_000));
    let (proxies, environment) = Proxies::start().await;
    // The long list cannot end before the last trouble: its last page is held back.
    let gateway = Gateway::start(0).await;
    gateway.hold(&page("long", long - 1));
    let flags = ["--gateway-url", &gateway.url, "--inline-tasks-max", "50", "--chunk-rows", "20"];
    let mut deployment = Deployment::prepare("faulty", &environment, &[&flags[..], &TIMEOUTS].concat());
    deployment.start(ROLES.into_iter().chain(ROLES));
    let first = deployment.submit("long", long).await;
    let mut jobs = Vec::new();
    for (service, name) in SERVICES.into_iter().enumerate() {
        for Trouble { faults, counted, lasts } in troubles(service) {
            let list = format!("short-{}", jobs.len());
            jobs.push((deployment.submit(&list, short).await, list));
            let mut before = Vec::new();
            for fault in counted {
                before.push((*fault, proxies.seen(service, fault).await));
            }
            proxies.order(service, &faults).await;
            for (fault, before) in before {
                until(&format!("{name} has {fault}"), async || {
                    // There is always something to settle.
                    gateway.allow_next();
                    proxies.seen(service, fault).await > before
                })
                .await;
            }
            gateway.allow(short / 2);
            tokio::time::sleep(lasts).await;
            proxies.order(service, &json!({})).await;
        }
    }
    // Otherwise the test showed nothing.
    assert!(
        deployment.completed(&first).await < long as u64,
        "the long list was done before the last trouble"
    );
    gateway.open();
    deployment.check_exact(&first, "long", long).await;
    for (job, list) in &jobs {
        deployment.check_exact(job, list, short).await;
    }
}

/// The table refuses every call while messages become receivable: a worker that tried again at once would receive and
/// release them over a hundred times a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_that_fail_back_off() {
    const TASKS: usize = 200;
    const WINDOW: Duration = Duration::from_secs(3);
    let (proxies, environment) = Proxies::start().await;
    let gateway = support::scripted_gateway(&[]);
    let flags = ["--gateway-url", &gateway.url, "--retry-base-ms", "6000", "--aws-attempts-max", "1"];
    let mut deployment = Deployment::prepare("spin", &environment, &[&flags[..], &TIMEOUTS].concat());
    deployment.start(["api"]);
    let dir = TempDir::new().unwrap();
    let log = dir.path().join("log");
    let mut command = deployment.role_command("worker");
    command.env("CONVEYOR_LOG", "warn").stderr(File::create(&log).unwrap());
    deployment.roles.push(("worker", Process::start(command)));
    let client = deployment.client();
    until("the API is ready", async || client.get("/readyz").await.0 == 200).await;
    let urls: Vec<String> = (0..TASKS).map(|n| format!("https://example.com/flaky/1?n={n}")).collect();
    let job = client.submit(&urls).await;
    let worker = Client::new(&deployment.roles.iter().find(|(role, _)| *role == "worker").unwrap().1);
    let metric = async |name: &str, label: &str| {
        let (_, text) = worker.text(&format!("{}/metrics", worker.url)).await;
        let line = text.lines().find(|line| line.starts_with(name) && line.contains(label));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).unwrap_or(0.0) as usize
    };
    until("every task waits for its retry", async || {
        metric("conveyor_tasks_settled_total", "retried").await == TASKS
    })
    .await;
    proxies.order(0, &json!({"drop_requests": 1.0})).await;
    let received = async || metric("conveyor_messages_received_total", "").await;
    until("messages are received, and no task can be claimed", async || received().await > TASKS).await;
    let warnings = || std::fs::read_to_string(&log).unwrap().matches(" WARN ").count();
    let (before, warned) = (received().await, warnings());
    tokio::time::sleep(WINDOW).await;
    let again = received().await - before;
    // One round, of as many as may be in flight (100), and then one at a time.
    assert!(again <= 120, "{again} messages were received in {WINDOW:?} of an outage");
    let warned = warnings() - warned;
    println!("{again} messages and {warned} warnings in {WINDOW:?} of an outage");
    assert!(warned <= 30, "{warned} warnings in {WINDOW:?} of an outage");
    proxies.order(0, &json!({})).await;
    let view = client.patient().wait_for(&job, &["completed"]).await;
    assert_eq!(view["latest_run"]["stats"]["successful"], TASKS);
}

/// While a service does not answer the API says so, and is ready again by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_is_said_and_passes() {
    let (proxies, environment) = Proxies::start().await;
    let mut deployment =
        Deployment::prepare("outage", &environment, &[&TIMEOUTS[..], &["--gateway-url", "demo:"]].concat());
    deployment.start(ROLES);
    let client: Client = deployment.client();
    let (blocked, passed) = (json!({"blocked": true}), json!({}));
    for (service, name) in SERVICES.into_iter().enumerate() {
        until("ready before", async || client.get("/readyz").await.0 == 200).await;
        proxies.order(service, &blocked).await;
        let not_ready = async || client.get("/readyz").await;
        let (_, why) = until_fits("not ready", not_ready, |(status, _)| *status == 503).await;
        let named = format!("Not ready: {}.", ["store", "queue", "objects"][service]);
        assert_eq!(why["detail"], named, "{name} does not answer");
        if name == "dynamodb" {
            let jobs = format!("{}/v1/jobs", client.url);
            let answer = proxies.http.get(jobs).header("X-API-Key", KEY).send().await.unwrap();
            assert_eq!(answer.status().as_u16(), 503);
            assert!(answer.headers().contains_key("retry-after"));
        }
        proxies.order(service, &passed).await;
        until("ready again", async || client.get("/readyz").await.0 == 200).await;
    }
    let client = client.patient();
    let job = client.submit(&support::urls("after", 30)).await;
    client.wait_for(&job, &["completed"]).await;
}
