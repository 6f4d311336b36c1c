//! Workers whose wall clocks do not agree (SPEC 6.26).

use super::{Deployment, servers};
use crate::support::wall_clock::WallClock;
use crate::support::{Client, Gateway, Process, list, until, until_fits, urls};
use serde_json::json;
use tokio::time::Instant;

const CAP: usize = 4;
const PER_SECOND: f64 = 10.0;
const TASKS: usize = 30;

/// How often a worker has asked for permits.
async fn asks(worker: &Process) -> u64 {
    let client = Client::new(worker);
    let (_, text) = client.text(&format!("{}/metrics", client.url)).await;
    let line = text.lines().find(|line| line.starts_with("conveyor_budget_asks_total"));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_a_minute_ahead_keeps_cap_and_rate() {
    let (environment, gateway) = (servers().await, Gateway::start(0).await);
    let mut deployment = Deployment::prepare("clocks", &environment, &["--gateway-url", &gateway.url]);
    deployment.start(["api", "worker"]);
    let client = deployment.client().patient();
    let mut capped = list(&urls("capped", 3 * CAP));
    capped["max_inflight"] = json!(CAP);
    let (status, job) = client.post_json("/v1/jobs", &capped).await;
    assert_eq!(status, 201, "{job}");
    until("one worker has all permits in use", async || gateway.in_flight() == CAP).await;

    let ahead = WallClock::ahead(60);
    deployment.start_at("worker", &ahead);
    let (_, other) = &deployment.roles[2];
    until("the other one has asked for some, again and again", async || asks(other).await >= 3).await;
    assert_eq!(gateway.max_in_flight(), CAP, "nobody's permits were freed");
    // It knows that its clock is off, and by how much.
    let (_, ready) = Client::new(other).get("/readyz").await;
    let warning = ready["warnings"][0].as_str().unwrap_or_default();
    assert!(warning.contains("off by 59 s") || warning.contains("off by 60 s"), "{ready}");
    gateway.open();
    client.wait_for(job["job_id"].as_str().unwrap(), &["completed"]).await;
    assert_eq!(gateway.max_in_flight(), CAP);

    let mut rated = list(&urls("rated", TASKS));
    rated["rate_limit"] = json!({"per_second": PER_SECOND, "burst": 2});
    let (before, began) = (gateway.calls_in_all(), Instant::now());
    let (status, job) = client.post_json("/v1/jobs", &rated).await;
    assert_eq!(status, 201, "{job}");
    let calls = async || gateway.calls_in_all() - before;
    until_fits("all calls were made", calls, |calls| *calls == TASKS).await;
    let least = (TASKS as f64 - 2.0) / PER_SECOND;
    assert!(began.elapsed().as_secs_f64() >= least, "{TASKS} calls in {:?}, not {least} s", began.elapsed());
}
