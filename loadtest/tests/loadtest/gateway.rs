//! The real `loadtest gateway` over real sockets: every script, and what it counts.

use conveyor_testkit::{Process, command, until};
use reqwest::{Client, Response, Url};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

struct Gateway {
    _process: Process,
    url: Url,
    client: Client,
}

impl Gateway {
    fn start(flags: &[&str]) -> Gateway {
        let mut command = command(env!("CARGO_BIN_EXE_loadtest"));
        command.args(["gateway", "--listen", "127.0.0.1:0"]).args(flags);
        let process = Process::start(command);
        let (url, client) = (process.url.parse().unwrap(), conveyor_outbound::client_builder().no_proxy());
        Gateway { _process: process, url, client: client.build().unwrap() }
    }

    fn request(&self, target: &str) -> Url {
        let mut url = self.url.clone();
        url.query_pairs_mut().append_pair("apikey", "k").append_pair("url", target);
        url
    }

    async fn call(&self, target: &str) -> Response {
        self.client.get(self.request(&format!("http://t.example{target}"))).send().await.unwrap()
    }

    async fn stats(&self) -> Value {
        self.client.get(self.url.join("/_stats").unwrap()).send().await.unwrap().json().await.unwrap()
    }

    async fn reset(&self) {
        let answer = self.client.post(self.url.join("/_reset").unwrap()).send().await.unwrap();
        assert_eq!(answer.status(), 204);
    }

    async fn wait_for_in_flight(&self, wanted: u64) {
        until(&format!("{wanted} in flight"), async || self.stats().await["in_flight"] == wanted).await;
    }
}

async fn problem(answer: Response) -> (u16, String) {
    let status = answer.status().as_u16();
    assert_eq!(answer.headers()["content-type"], "application/problem+json");
    let body: Value = answer.json().await.unwrap();
    assert_eq!(body["status"], status);
    (status, body["code"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn pages_have_the_size_that_was_asked_for() {
    let gateway = Gateway::start(&["--body-bytes", "77"]);
    for (target, bytes) in [("/item/1", 77), ("/size/0", 0), ("/size/200000", 200_000), ("/status/201", 77)] {
        let answer = gateway.call(target).await;
        assert!(answer.status().is_success(), "{target}");
        assert_eq!(answer.bytes().await.unwrap().len(), bytes, "{target}");
    }
    let posted = gateway.client.post(gateway.request("http://t.example/")).body("a=b").send().await.unwrap();
    assert_eq!(posted.status(), 200);
}

#[tokio::test]
async fn targets_script_their_failures() {
    let gateway = Gateway::start(&[]);
    assert_eq!(problem(gateway.call("/status/404").await).await, (404, "scripted".to_owned()));
    let busy = gateway.call("/status/429?retry_after=3").await;
    assert_eq!(busy.headers()["retry-after"], "3");
    assert_eq!(problem(busy).await.0, 429);
    let accounts = [
        ("/account/credits", 402, "insufficient_credits"),
        ("/account/cap", 402, "api_key_cap_reached"),
        ("/account/subscription", 401, "subscription_inactive"),
    ];
    for (target, status, code) in accounts {
        assert_eq!(problem(gateway.call(target).await).await, (status, code.to_owned()));
    }
}

#[tokio::test]
async fn flaky_targets_recover_each_on_its_own() {
    let gateway = Gateway::start(&[]);
    for target in ["/flaky/2?id=1", "/flaky/2?id=2"] {
        let mut seen = Vec::new();
        for _ in 0..4 {
            seen.push(gateway.call(target).await.status().as_u16());
        }
        assert_eq!(seen, [503, 503, 200, 200]);
    }
}

#[tokio::test]
async fn a_call_without_a_url_is_not_one() {
    let gateway = Gateway::start(&[]);
    let bare = gateway.client.get(gateway.url.clone()).send().await.unwrap();
    assert_eq!(problem(bare).await, (400, "missing_url".to_owned()));
    let nonsense = gateway.client.get(gateway.request("nonsense")).send().await.unwrap();
    assert_eq!(problem(nonsense).await, (400, "invalid_url".to_owned()));
    let put = gateway.client.put(gateway.request("http://t.example/")).send().await.unwrap();
    assert_eq!(problem(put).await, (405, "method_not_allowed".to_owned()));
    assert_eq!(gateway.stats().await["calls"], 0);
}

#[tokio::test]
async fn slow_targets_take_their_time_and_hanging_ones_for_ever() {
    let gateway = Gateway::start(&[]);
    let begin = Instant::now();
    assert_eq!(gateway.call("/slow/80").await.status(), 200);
    assert!(begin.elapsed() >= Duration::from_millis(80));
    let hanging = futures_of(&gateway, 1);
    gateway.wait_for_in_flight(1).await;
    // Hanging up ends the call on the other side too.
    drop(hanging);
    gateway.wait_for_in_flight(0).await;
}

#[tokio::test]
async fn counts_what_it_saw_and_forgets_on_demand() {
    let gateway = Gateway::start(&[]);
    let hanging = futures_of(&gateway, 3);
    gateway.wait_for_in_flight(3).await;
    drop(hanging);
    gateway.wait_for_in_flight(0).await;
    for target in ["/a", "/b", "/b", "/b", "/status/500"] {
        gateway.call(target).await;
    }
    let expected = json!({
        "calls": 8, "in_flight": 0, "max_in_flight": 3, "distinct_urls": 6, "repeated_urls": 1, "failures": 1,
        "uncounted_urls": 0,
    });
    assert_eq!(gateway.stats().await, expected);
    gateway.reset().await;
    assert_eq!(gateway.stats().await["calls"], 0);
    gateway.call("/b").await;
    assert_eq!(gateway.stats().await["repeated_urls"], 0);
}

/// Calls that hang until they are dropped.
fn futures_of(gateway: &Gateway, calls: usize) -> tokio::task::JoinSet<()> {
    let mut set = tokio::task::JoinSet::new();
    for n in 0..calls {
        let request = gateway.client.get(gateway.request(&format!("http://t.example/hang?n={n}")));
        set.spawn(async move { drop(request.send().await) });
    }
    set
}

#[tokio::test]
async fn a_seed_repeats_the_luck() {
    let mut runs = Vec::new();
    for seed in ["5", "5", "6"] {
        let flags = [
            "--fail-ratio",
            "0.5",
            "--fail-status",
            "500",
            "--seed",
            seed,
            "--jitter-ms",
            "2",
            "--latency-ms",
            "1",
        ];
        let gateway = Gateway::start(&flags);
        let mut seen = Vec::new();
        for n in 0..40 {
            seen.push(gateway.call(&format!("/{n}")).await.status().as_u16());
        }
        let failures = seen.iter().filter(|status| **status == 500).count();
        assert!((5..35).contains(&failures), "{seen:?}");
        assert_eq!(gateway.stats().await["failures"], failures);
        runs.push(seen);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}

#[tokio::test]
async fn on_demand_it_records_when_calls_began_and_ended() {
    let silent = Gateway::start(&[]);
    let log = silent.client.get(silent.url.join("/_log").unwrap()).send().await.unwrap();
    assert_eq!(problem(log).await, (404, "not_recording".to_owned()));

    let gateway = Gateway::start(&["--record"]);
    let hanging = futures_of(&gateway, 2);
    gateway.wait_for_in_flight(2).await;
    drop(hanging);
    gateway.wait_for_in_flight(0).await;
    gateway.call("/a").await;
    gateway.wait_for_in_flight(0).await;
    let log: Value =
        gateway.client.get(gateway.url.join("/_log").unwrap()).send().await.unwrap().json().await.unwrap();
    let changes: Vec<(u64, u64)> = serde_json::from_value(log["changes"].clone()).unwrap();
    assert_eq!(changes.iter().map(|(_, n)| *n).collect::<Vec<_>>(), [1, 2, 1, 0, 1, 0]);
    assert!(changes.is_sorted_by_key(|(at_us, _)| *at_us));
    assert_eq!(log["arrivals_us"], json!([changes[0].0, changes[1].0, changes[4].0]));
    assert_eq!(log["unrecorded"], 0);

    // Two were in flight between the second and the third change.
    let span = format!("/_stats?from_us={}&to_us={}", changes[1].0, changes[2].0);
    let stats: Value =
        gateway.client.get(gateway.url.join(&span).unwrap()).send().await.unwrap().json().await.unwrap();
    assert_eq!(stats["record"]["average_in_flight"], json!(2.0));
    assert_eq!((&stats["record"]["recorded"], &stats["calls"]), (&json!(6), &json!(3)));
    gateway.reset().await;
    assert_eq!(gateway.stats().await["record"]["recorded"], 0);
}
