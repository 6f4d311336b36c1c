//! A wall clock that is set while the process runs (SPEC 6.26).

use crate::support::wall_clock::WallClock;
use crate::support::{Client, Gateway, Process, conveyor, embedded_command, run, until, until_fits, urls};
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;

const OPERATOR_KEY: &str = "operator-key-0123456789";
const DAY_S: i64 = 24 * 3600;

fn server(dir: &Path, clock: &WallClock, gateway: &Gateway) -> Process {
    let flags = ["--gateway-url", &gateway.url, "--operator-key", OPERATOR_KEY];
    let mut command = embedded_command(dir, &flags);
    clock.wear(&mut command);
    Process::start(command)
}

async fn clock_of(server: &Process) -> Value {
    Client::with_key(server, OPERATOR_KEY).get("/v1/admin/clock").await.1
}

/// Every repair, now, as the sweeper does in its own time.
async fn reconcile(server: &Process) {
    let operator = Client::with_key(server, OPERATOR_KEY);
    let (status, done) = operator.post_json("/v1/admin/reconcile", &json!({})).await;
    assert_eq!((status, &done["errors"]), (200, &json!([])), "{done}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_60_days_ahead_for_a_while_removes_nothing_and_stops_nothing() {
    let (dir, clock, gateway) = (TempDir::new().unwrap(), WallClock::ahead(0), Gateway::start(3).await);
    let server = server(dir.path(), &clock, &gateway);
    let client = Client::new(&server);
    let job = client.submit(&urls("kept", 3)).await;
    client.wait_for(&job, &["completed"]).await;
    let task = client.results(&job).await[0]["task_id"].as_str().unwrap().to_owned();
    let content = format!("{}/v1/jobs/{job}/tasks/{task}/history", client.url);
    let status = async || client.get(content.strip_prefix(&client.url).unwrap()).await.0;
    until("a sweeper has seen the time", async || clock_of(&server).await["seen_at"].is_string()).await;
    let in_doubt = async || {
        let clock = async || clock_of(&server).await;
        until_fits("the time is in doubt", clock, |clock| clock["removal"] == "halted").await
    };
    let under_way = client.submit(&urls("under-way", 2)).await;
    until("it is under way", async || gateway.in_flight() == 2).await;

    clock.set_ahead(60 * DAY_S);
    in_doubt().await;
    reconcile(&server).await;
    assert_eq!(status().await, 200, "it is not past its time yet");
    let ready = client.get("/readyz").await;
    let warning = ready.1["warnings"][0].as_str().unwrap_or_default();
    assert!(ready.0 == 200 && warning.contains("nothing is removed"), "{ready:?}");
    let meanwhile = client.submit(&urls("meanwhile", 1)).await;
    until("it is under way too", async || gateway.in_flight() == 3).await;

    clock.set_ahead(0);
    until("the time is right", async || clock_of(&server).await["removal"] == "running").await;
    assert_eq!(status().await, 200, "everything is there");
    let ready = async || client.get("/readyz").await.1;
    until_fits("nothing is wrong", ready, |ready| *ready == json!({"status": "ready"})).await;
    gateway.open();
    for job in [&under_way, &meanwhile, &client.submit(&urls("after", 1)).await] {
        client.wait_for(job, &["completed"]).await;
    }

    clock.set_ahead(60 * DAY_S);
    in_doubt().await;
    let mut confirm = conveyor();
    confirm.args(["clock", "confirm", "--json", "--server", &server.url, "--operator-key", OPERATOR_KEY]);
    let confirmed = run(confirm);
    let answer: Value = serde_json::from_slice(&confirmed.stdout).unwrap();
    assert_eq!((confirmed.status.code(), &answer["removal"]), (Some(0), &json!("running")), "{answer}");
    reconcile(&server).await;
    clock.set_ahead(0);
    until("the time is right", async || !clock_of(&server).await["now"].is_null()).await;
    assert_eq!(status().await, 410, "an operator said so: it is gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_goes_on_after_a_clock_that_was_60_days_ahead() {
    let (dir, clock, gateway) = (TempDir::new().unwrap(), WallClock::ahead(0), Gateway::start(0).await);
    gateway.open();
    let server = server(dir.path(), &clock, &gateway);
    let client = Client::new(&server);
    let schedule = json!({"rate": {"every": 1, "unit": "minute"}});
    let body = json!({"type": "scheduled", "schedule": schedule, "tasks": [{"url": "https://example.com/"}]});
    let (status, made) = client.post_json("/v1/jobs", &body).await;
    assert_eq!(status, 201, "{made}");
    let job = made["job_id"].as_str().unwrap().to_owned();
    let next = async || client.job(&job).await["next_scheduled_run"].as_str().unwrap().to_owned();
    let fired = async || {
        let events = client.get(&format!("/v1/jobs/{job}/events")).await.1["events"].take();
        let fired = events.as_array().unwrap().iter().filter(|event| event["type"] == "schedule.fired");
        fired
            .map(|event| event["data"]["scheduled_for"].as_str().unwrap().to_owned())
            .collect::<Vec<String>>()
    };
    let first = next().await;

    clock.set_ahead(60 * DAY_S);
    until("the sweeper has fired it", async || fired().await.len() == 1).await;
    client.wait_for(&job, &["completed"]).await;
    let far = next().await;

    clock.set_ahead(0);
    until("it is computed anew", async || next().await < far).await;
    assert!(first < next().await, "what has fired does not fire again");
    // Both its next moments have come then.
    clock.set_ahead(130);
    until("it goes on", async || fired().await.len() > 1).await;
    reconcile(&server).await;
    let mut fires = fired().await;
    assert!(fires.is_sorted() && fires[0] == first && fires[1] < far, "{fires:?}");
    fires.dedup();
    assert_eq!(fires, fired().await, "each once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_started_ahead_becomes_right_without_a_restart() {
    let (dir, clock, gateway) = (TempDir::new().unwrap(), WallClock::ahead(3), Gateway::start(0).await);
    let server = server(dir.path(), &clock, &gateway);
    assert_eq!(clock_of(&server).await["skew_ms"].as_i64().map(|ms| ms.abs() < 100), Some(true));
    clock.set_ahead(0);
    let ahead_ms = async || -clock_of(&server).await["skew_ms"].as_i64().unwrap();
    assert!((1_000..=3_000).contains(&ahead_ms().await), "not set back at once");
    until("the process has slowed down until it is right", async || ahead_ms().await <= 1_000).await;
}
