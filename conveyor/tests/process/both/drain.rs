//! Whole jobs through the real binary and a real HTTP gateway: results, retries, limits, failures.

use crate::support::{self, Client, Gateway, OTHER_KEY, Process, list, stored, until, urls};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A server and its gateway.
struct System<G = Process> {
    server: Process,
    gateway: G,
    client: Client,
    dir: TempDir,
}

fn system(gateway_flags: &[&str], flags: &[&str]) -> System {
    let gateway = support::scripted_gateway(gateway_flags);
    let url = gateway.url.clone();
    served(gateway, &url, flags)
}

/// A system whose gateway gives so many answers, and more when the test allows them.
async fn gated(answers: usize, flags: &[&str]) -> System<Gateway> {
    let gateway = Gateway::start(answers).await;
    let url = gateway.url.clone();
    served(gateway, &url, flags)
}

fn served<G>(gateway: G, url: &str, flags: &[&str]) -> System<G> {
    let dir = TempDir::new().unwrap();
    let mut all = vec!["--gateway-url", url, "--retry-base-ms", "10", "--retry-cap-ms", "50"];
    all.extend(flags);
    let server = support::server(dir.path(), &all);
    let client = Client::new(&server);
    System { server, gateway, client, dir }
}

impl<G> System<G> {
    async fn submit(&self, body: Value) -> String {
        let (status, answer) = self.client.try_submit(&body).await.unwrap();
        assert_eq!(status, 201, "{answer}");
        answer["job_id"].as_str().unwrap().to_owned()
    }

    async fn run_of(&self, targets: &[&str], statuses: &[&str]) -> (String, Value) {
        let targets: Vec<String> = targets.iter().map(|t| format!("https://example.com{t}")).collect();
        let job = self.client.submit(&targets).await;
        let view = self.client.wait_for(&job, statuses).await;
        (job, view["latest_run"].clone())
    }
}

impl System {
    async fn gateway_stats(&self) -> Value {
        Client::new(&self.gateway).get("/_stats").await.1
    }
}

#[tokio::test]
async fn a_hundred_urls_complete_with_a_hundred_results() {
    let system = system(&[], &[]);
    let job = system.client.submit(&urls("hundred", 100)).await;
    let view = system.client.wait_for(&job, &["completed"]).await;
    let stats = json!({"total": 100, "completed": 100, "successful": 100, "failed": 0});
    assert_eq!(view["latest_run"]["stats"], stats);
    let results = system.client.results(&job).await;
    let in_order: Vec<_> = results.iter().map(|r| r["url"].as_str().unwrap().to_owned()).collect();
    assert_eq!(in_order, urls("hundred", 100), "results come in input order");
    let body = system.client.text(results[42]["result_url"].as_str().unwrap()).await;
    assert!(body.1.starts_with(&in_order[42]), "{body:?}");
    let gateway = system.gateway_stats().await;
    assert_eq!((gateway["calls"].as_u64(), gateway["repeated_urls"].as_u64()), (Some(100), Some(0)));
}

#[tokio::test]
async fn transient_failures_are_retried_and_leave_their_history() {
    let system = system(&[], &["--attempts-max", "4"]);
    let (job, run) = system.run_of(&["/flaky/2"], &["completed"]).await;
    assert_eq!(run["stats"]["successful"], 1);
    let task = system.client.results(&job).await[0]["task_id"].as_str().unwrap().to_owned();
    let (_, history) = system.client.get(&format!("/v1/jobs/{job}/tasks/{task}/history")).await;
    let events = history["events"].as_array().unwrap();
    assert_eq!(events.iter().map(|e| e["attempt"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(
        events.iter().map(|e| e["error"]["status"].as_u64()).collect::<Vec<_>>(),
        [Some(503), Some(503), None]
    );
}

#[tokio::test]
async fn failures_have_a_class_and_a_problem() {
    let system = system(&[], &["--attempts-max", "2"]);
    let targets = ["/status/404", "/status/403", "/status/429", "/status/500", "/status/418", "/ok"];
    let (job, run) = system.run_of(&targets, &["completed"]).await;
    assert_eq!((&run["stats"]["successful"], &run["stats"]["failed"]), (&json!(1), &json!(5)));
    let reasons = json!({"bad_target": 1, "blocked": 1, "rate_limited": 1, "gateway_error": 1, "other": 1});
    assert_eq!(run["stats"]["failure_reasons"], reasons);
    let results = system.client.results(&job).await;
    assert_eq!(results[0]["error"]["status"], 404);
    assert!(results[0]["result_url"].is_null());
    let task = results[0]["task_id"].as_str().unwrap();
    let (status, problem) = system.client.get(&format!("/v1/jobs/{job}/tasks/{task}/content")).await;
    assert_eq!((status, &problem["code"]), (422, &results[0]["error"]["code"]));
}

#[tokio::test]
async fn retry_after_is_honoured() {
    let system = system(&[], &["--attempts-max", "2"]);
    let (job, _) = system.run_of(&["/status/429?retry_after=1"], &["completed"]).await;
    let task = system.client.results(&job).await[0]["task_id"].as_str().unwrap().to_owned();
    let (_, history) = system.client.get(&format!("/v1/jobs/{job}/tasks/{task}/history")).await;
    let at = |event: usize, field: &str| history["events"][event][field].as_str().unwrap().to_owned();
    let ms = |text: &str| text.parse::<Timestamp>().unwrap();
    let waited = ms(&at(1, "started_at")).0 - ms(&at(0, "ended_at")).0;
    assert!(waited >= 1_000, "waited {waited} ms, the answer said 1 s");
}

/// Enough of RFC 3339 for two times of one test: the milliseconds of its day.
struct Timestamp(i64);

impl std::str::FromStr for Timestamp {
    type Err = std::num::ParseIntError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |range: std::ops::Range<usize>| text[range].parse::<i64>();
        let minutes = number(8..10)? * 24 * 60 + number(11..13)? * 60 + number(14..16)?;
        Ok(Timestamp((minutes * 60 + number(17..19)?) * 1_000 + number(20..23)?))
    }
}

#[tokio::test]
async fn an_account_level_answer_fails_the_run_and_burns_no_attempt() {
    let faults = [
        ("/account/credits", "insufficient_credits"),
        ("/account/cap", "api_key_cap_reached"),
        ("/account/subscription", "subscription_inactive"),
    ];
    let system = system(&[], &[]);
    for (target, reason) in faults {
        let (job, run) = system.run_of(&[target], &["failed"]).await;
        assert_eq!(run["failure_reason"], reason);
        assert!(!run["failure_detail"].as_str().unwrap().is_empty());
        let results = system.client.results(&job).await;
        until("the task is given back", async || system.client.results(&job).await[0]["status"] == "pending")
            .await;
        let task = results[0]["task_id"].as_str().unwrap();
        let (_, history) = system.client.get(&format!("/v1/jobs/{job}/tasks/{task}/history")).await;
        assert_eq!(history["events"], json!([]));
        assert_eq!(run["stats"]["completed"], 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_flight_work_never_exceeds_max_inflight() {
    let system = gated(0, &[]).await;
    let mut body = list(&urls("capped", 120));
    body["max_inflight"] = json!(5);
    let job = system.submit(body).await;
    until("as much is in flight as may be", async || system.gateway.in_flight() == 5).await;
    system.gateway.open();
    system.client.wait_for(&job, &["completed"]).await;
    assert_eq!((system.gateway.calls_in_all(), system.gateway.max_in_flight()), (120, 5));
}

#[tokio::test]
async fn an_open_job_rests_between_batches_and_completes_when_closed() {
    let system = system(&[], &[]);
    let mut body = list(&urls("open/first", 3));
    body["status"] = json!("open");
    let job = system.submit(body).await;
    system.client.wait_for(&job, &["pending"]).await;
    let (status, added) =
        system.client.post_json(&format!("/v1/jobs/{job}/tasks"), &list(&urls("open/more", 4))).await;
    assert_eq!((status, &added["accepted_tasks"]), (200, &json!(4)));
    let rested = system.client.wait_for(&job, &["pending"]).await;
    assert_eq!(rested["latest_run"]["stats"]["completed"], 7);
    let (status, closed) = system.client.post(&format!("/v1/jobs/{job}/close")).await;
    assert_eq!((status, &closed["latest_run"]["status"]), (200, &json!("completed")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_run_starts_nothing_more() {
    // One of them is left for other callers.
    let system = gated(0, &["--slots", "5"]).await;
    let job = system.client.submit(&urls("stopped", 50)).await;
    until("some tasks are in flight", async || system.gateway.in_flight() >= 4).await;
    let (status, run) = system.client.post(&format!("/v1/jobs/{job}/stop")).await;
    assert_eq!((status, &run["status"]), (200, &json!("stopped")));
    system.gateway.open();
    until("what was in flight is settled and counted", async || {
        let completed = system.client.job(&job).await["latest_run"]["stats"]["completed"].as_u64();
        system.gateway.in_flight() == 0 && completed == Some(system.gateway.calls_in_all() as u64)
    })
    .await;
    // What had a slot when it was stopped may have been on its way: four in each worker.
    let (calls, slots) = (system.gateway.calls_in_all(), if support::on_aws() { 8 } else { 4 });
    assert!(calls <= slots, "{calls} calls: work was started after the stop");
    let view = system.client.job(&job).await;
    assert_eq!(
        (&view["latest_run"]["status"], &view["latest_run"]["stats"]["total"]),
        (&json!("stopped"), &json!(50))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_job_disappears_with_all_that_is_stored_whatever_was_in_flight() {
    const DONE: usize = 20;
    let system = gated(DONE, &["--slots", "8"]).await;
    let job = system.client.submit(&urls("deleted", 60)).await;
    until("some results are in, and more is in flight", async || {
        let completed = system.client.job(&job).await["latest_run"]["stats"]["completed"] == DONE;
        completed && system.gateway.in_flight() > 0
    })
    .await;
    let run = system.client.job(&job).await["latest_run"]["run_id"].as_str().unwrap().to_owned();
    // Otherwise it would say of anything that nothing is left. The objects of a folder count as one, so there are rows too.
    let stored = stored::remains(system.dir.path(), &job, &run).await;
    assert!(stored.len() > 1, "{stored:?}");
    let (status, view) = system.client.delete(&format!("/v1/jobs/{job}")).await;
    assert_eq!((status, &view["status"]), (202, &json!("deleted")));
    assert!(system.gateway.in_flight() > 0, "nothing was in flight when it was deleted");
    system.gateway.open();
    until("nothing is in flight", async || system.gateway.in_flight() == 0).await;
    until("the job is gone", async || system.client.get(&format!("/v1/jobs/{job}")).await.0 == 404).await;
    until("all that was stored of it is gone", async || {
        stored::remains(system.dir.path(), &job, &run).await.is_empty()
    })
    .await;
    assert_eq!(system.client.get("/v1/jobs").await.1["jobs"], json!([]));
}

#[tokio::test]
async fn callers_do_not_see_each_other() {
    let system = system(&[], &[]);
    let job = system.client.submit(&urls("mine", 1)).await;
    system.client.wait_for(&job, &["completed"]).await;
    let stranger = Client::with_key(&system.server, OTHER_KEY);
    assert_eq!(stranger.get(&format!("/v1/jobs/{job}")).await.0, 404);
    assert_eq!(stranger.get("/v1/jobs").await.1["jobs"], json!([]));
    assert_eq!(stranger.post(&format!("/v1/jobs/{job}/stop")).await.0, 404);
}

#[tokio::test]
async fn without_a_gateway_pages_are_fetched_but_not_from_private_addresses() {
    let (target, dir) = (support::scripted_gateway(&[]), TempDir::new().unwrap());
    let page = format!("{}/?url=https%3A%2F%2Fexample.com%2Fdirect", target.url);
    let server = support::server(dir.path(), &[]);
    let client = Client::new(&server);
    let job = client.submit(std::slice::from_ref(&page)).await;
    let view = client.wait_for(&job, &["completed"]).await;
    assert_eq!(view["latest_run"]["stats"]["failure_reasons"], json!({"bad_target": 1}));
    assert_eq!(client.results(&job).await[0]["error"]["code"], "address_not_allowed");
    server.stop().await;
    let server = support::server(dir.path(), &["--allow-private-targets"]);
    let client = Client::new(&server);
    let job = client.submit(&[page]).await;
    client.wait_for(&job, &["completed"]).await;
    let results = client.results(&job).await;
    let (_, body) = client.text(results[0]["result_url"].as_str().unwrap()).await;
    assert!(body.starts_with("https://example.com/direct"), "{body}");
}

#[tokio::test]
async fn no_key_is_readable_at_rest() {
    let system = system(&[], &[]);
    let job = system.client.submit(&urls("sealed", 1)).await;
    system.client.wait_for(&job, &["completed"]).await;
    let kept = stored::everything(system.dir.path()).await;
    assert!(kept.len() >= 3, "nothing was looked at");
    for (place, bytes) in kept {
        let key = support::KEY.as_bytes();
        assert!(!bytes.windows(key.len()).any(|w| w == key), "{place} holds the key");
    }
}
