//! What one job's partition, one slow service or many requests must not do to everybody else.

use super::ROLES;
use super::deployment::Deployment;
use super::faults::{Proxies, SERVICES};
use crate::support::{self, until, urls};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

const DYNAMODB: usize = 0;
const SQS: usize = 1;
const S3: usize = 2;

/// DynamoDB refuses every call that names one job. Another one goes on, and so does the first once that is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_throttled_does_not_hold_up_another() {
    let (proxies, environment) = Proxies::start().await;
    let mut deployment = Deployment::prepare("throttled", &environment, &["--gateway-url", "demo:"]);
    deployment.start(["api", "sweeper"]);
    let client = deployment.client();
    let throttled = client.submit(&urls("throttled", 100)).await;
    proxies.order(DYNAMODB, &json!({"throttle": 1.0, "only": throttled})).await;
    deployment.start(["worker"]);
    let seen = async || proxies.seen(DYNAMODB, "throttle").await;
    until("calls of the job are refused", async || seen().await > 0).await;
    let other = client.submit(&urls("other", 100)).await;
    client.wait_for(&other, &["completed"]).await;
    // Otherwise the test showed nothing.
    let refused = seen().await;
    until("calls of the job are still refused", async || seen().await > refused).await;
    proxies.order(DYNAMODB, &json!({})).await;
    let view = client.patient().wait_for(&throttled, &["completed"]).await;
    assert_eq!(view["latest_run"]["stats"]["successful"], 100);
}

/// SQS does not answer. What is committed is answered all the same, and is worked on once SQS is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_hangs_does_not_keep_answers_back() {
    /// Far more than the 2 s that a request waits for SQS, far less than the 20 s that SQS is tried for.
    const PROMPT: Duration = Duration::from_secs(10);
    let (proxies, environment) = Proxies::start().await;
    let mut deployment = Deployment::prepare("hung", &environment, &["--gateway-url", "demo:"]);
    deployment.start(ROLES);
    let client = deployment.client();
    let open = |name: &str| json!({"status": "open", "tasks": support::list(&urls(name, 1))["tasks"]});
    let mut jobs = Vec::new();
    for name in ["added", "stopped", "deleted"] {
        let (status, job) = client.post_json("/v1/jobs", &open(name)).await;
        assert_eq!(status, 201, "{job}");
        jobs.push(format!("/v1/jobs/{}", job["job_id"].as_str().unwrap()));
    }
    let [added, stopped, deleted] = &jobs[..] else { unreachable!() };
    proxies.order(SQS, &json!({"blocked": true})).await;

    let begin = Instant::now();
    let expect = |(status, body): (u16, Value), expected: u16| {
        assert_eq!(status, expected, "{body}");
        body
    };
    let more = json!({"tasks": support::list(&urls("more", 20))["tasks"], "last_batch": true});
    let (list, adding, stop) =
        (support::list(&urls("submitted", 20)), format!("{added}/tasks"), format!("{stopped}/stop"));
    let (submitted, tasks, ended, gone) = tokio::join!(
        client.post_json("/v1/jobs", &list),
        client.post_json(&adding, &more),
        client.post(&stop),
        client.delete(deleted),
    );
    let submitted = expect(submitted, 201);
    for (answer, expected) in [(tasks, 200), (ended, 200), (gone, 202)] {
        expect(answer, expected);
    }
    assert!(begin.elapsed() < PROMPT, "answered after {:?}", begin.elapsed());
    assert!(proxies.seen(SQS, "blocked").await > 0, "nobody asked SQS");

    proxies.order(SQS, &json!({})).await;
    let client = client.patient();
    for job in [submitted["job_id"].as_str().unwrap(), added.strip_prefix("/v1/jobs/").unwrap()] {
        let view = client.wait_for(job, &["completed"]).await;
        assert_eq!(view["latest_run"]["stats"]["failed"], 0, "{view}");
    }
}

/// However many requests and probes there are, a key is read once in 5 s, and the backend asked once a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_and_probes_cost_few_calls() {
    let (proxies, environment) = Proxies::start().await;
    let mut deployment = Deployment::prepare("few-calls", &environment, &["--gateway-url", "demo:"]);
    deployment.start(["api"]);
    let client = deployment.client();
    until("ready", async || client.get("/readyz").await.0 == 200).await;
    let calls = async || {
        let mut calls = [0; 3];
        for (service, operation) in [(DYNAMODB, "GetItem"), (SQS, "GetQueueAttributes"), (S3, "HeadBucket")] {
            calls[service] = proxies.calls(service, operation).await;
        }
        calls
    };
    let (before, begin) = (calls().await, Instant::now());
    for _ in 0..10 {
        let requests = (0..10).map(|_| async { tokio::join!(client.get("/readyz"), client.get("/v1/jobs")) });
        for ((ready, _), (jobs, _)) in futures::future::join_all(requests).await {
            assert_eq!((ready, jobs), (200, 200));
        }
    }
    let (after, looks) = (calls().await, begin.elapsed().as_secs() + 2);
    for service in [DYNAMODB, SQS, S3] {
        // A look at the table is a row that is read, like a key.
        let allowed = if service == DYNAMODB { looks + looks / 5 + 1 } else { looks };
        let made = after[service] - before[service];
        assert!(made <= allowed, "{made} calls of {} for 200 requests", SERVICES[service]);
    }
}
