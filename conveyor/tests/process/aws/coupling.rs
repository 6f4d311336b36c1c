//! What one job's partition, one slow service or many requests must not do to everybody else.

use super::ROLES;
use super::deployment::Deployment;
use super::faults::{Proxies, SERVICES};
use crate::support::{self, Client, KEY, OTHER_KEY, until, urls};
use aws_sdk_dynamodb::types::AttributeValue;
use axum::Router;
use axum::extract::Path;
use axum::routing::post;
use conveyor_aws_servers::Environment;
use conveyor_domain::{JobId, KeyHash, Timestamp};
use conveyor_testkit::eventually;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
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

/// SPEC 6.17: DynamoDB refuses every call that names one caller, then every call that names a job of it whose notification is
/// due. Schedules of another caller fire meanwhile, and its webhooks are called.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_is_throttled_does_not_hold_up_what_is_due_of_another() {
    let (proxies, environment) = Proxies::start().await;
    let hooks = Hooks::start().await;
    let flags = ["--gateway-url", "demo:", "--api-key", OTHER_KEY, "--allow-http-webhooks"];
    let mut deployment = Deployment::prepare("due", &environment, &flags);
    deployment.start(["api", "ingest", "worker"]);
    let (_, api) = &deployment.roles[0];
    let (throttled, other) = (Client::new(api), Client::with_key(api, OTHER_KEY));
    // Nobody delivers yet: the notification is due when somebody does.
    let (status, done) = throttled.post_json("/v1/jobs", &hooked(&hooks, "refused", json!({}))).await;
    assert_eq!(status, 201, "{done}");
    let done = done["job_id"].as_str().unwrap();
    throttled.wait_for(done, &["completed"]).await;
    let waiting = scheduled(&throttled, &hooks, "late").await;
    scheduled(&other, &hooks, "first").await;
    let caller = caller_of(&deployment, &environment, KEY).await;
    proxies.order(DYNAMODB, &json!({"throttle": 1.0, "only": caller})).await;
    let seen = async || proxies.seen(DYNAMODB, "throttle").await;
    deployment.start(["sweeper"]);
    hooks.called("first").await;
    until("calls that name the caller are refused", async || seen().await > 0).await;

    scheduled(&other, &hooks, "second").await;
    proxies.order(DYNAMODB, &json!({"throttle": 1.0, "only": done})).await;
    let refused = seen().await;
    until("calls that name the job are refused", async || seen().await > refused).await;
    hooks.called("second").await;
    assert_eq!(hooks.calls("refused"), 0, "its claim was refused as well");
    proxies.order(DYNAMODB, &json!({})).await;
    hooks.called("refused").await;
    hooks.called("late").await;
    assert_eq!(throttled.job(&waiting).await["latest_run"]["run_sequence"], 1);
}

/// A receiver of webhooks.
struct Hooks {
    url: String,
    calls: Arc<Mutex<Vec<String>>>,
}

impl Hooks {
    async fn start() -> Hooks {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let calls = Arc::<Mutex<Vec<String>>>::default();
        let heard = calls.clone();
        let hear = async move |Path(name): Path<String>| heard.lock().unwrap().push(name);
        let router = Router::new().route("/{name}", post(hear));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Hooks { url, calls }
    }

    fn calls(&self, name: &str) -> usize {
        self.calls.lock().unwrap().iter().filter(|call| *call == name).count()
    }

    async fn called(&self, name: &str) {
        until(&format!("{name} is called"), async || self.calls(name) > 0).await;
    }
}

/// A job of one task, and who is told when it ended.
fn hooked(hooks: &Hooks, name: &str, more: Value) -> Value {
    let mut body = support::list(&urls(name, 1));
    body["status"] = json!("closed");
    body["webhook"] = json!({"url": format!("{}/{name}", hooks.url), "signature": false});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// A job that fires in a few seconds.
async fn scheduled(client: &Client, hooks: &Hooks, name: &str) -> String {
    eventually("a time that has not passed yet is taken", async || {
        let at = now(client).await.after(Duration::from_secs(3)).to_string();
        let schedule = json!({"at": at[..19], "timezone": "UTC"});
        let body = hooked(hooks, name, json!({"type": "scheduled", "schedule": schedule}));
        let (status, job) = client.post_json("/v1/jobs", &body).await;
        (status == 201).then(|| job["job_id"].as_str().unwrap().to_owned())
    })
    .await
}

/// The time of the server: an id begins with it, in milliseconds.
pub async fn now(client: &Client) -> Timestamp {
    let id: JobId = client.submit(&urls("now", 1)).await.parse().unwrap();
    Timestamp(id.to_bytes()[..6].iter().fold(0, |ms, byte| ms << 8 | i64::from(*byte)))
}

/// Whose key it is, as the table says.
async fn caller_of(deployment: &Deployment, environment: &Environment, key: &str) -> String {
    let hash = KeyHash::of(key).to_string();
    let dynamodb = deployment.clients(environment).await.dynamodb;
    let row = dynamodb.get_item().table_name(&deployment.name);
    let row =
        row.key("pk", AttributeValue::S(format!("Keys#{}", &hash[..1]))).key("sk", AttributeValue::S(hash));
    row.send().await.unwrap().item.unwrap()["cal"].as_s().unwrap().clone()
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
