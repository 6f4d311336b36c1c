//! The roles as separate processes on the AWS backend, two of each: killed at random, and cut off from its services.

#![expect(clippy::unwrap_used, reason = "in a test, an unwrap that fails is the report")]

mod support;

use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
use conveyor_aws_servers::{Combination, Environment};
use conveyor_domain::Entropy;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::time::Duration;
use support::{Client, KEY, Process, conveyor};
use tempfile::TempDir;
use tokio::time::Instant;

const ROWS: usize = 20_000;
const DONE_WITHIN: Duration = Duration::from_secs(600);
const ROLES: [&str; 4] = ["api", "ingest", "worker", "sweeper"];

/// Two of every role, under a name of their own.
struct Deployment {
    name: String,
    variables: Vec<(String, String)>,
    roles: Vec<(&'static str, Process)>,
    dir: TempDir,
}

async fn servers() -> Environment {
    tokio::task::spawn_blocking(|| Environment::shared(Combination::Default)).await.unwrap().unwrap()
}

impl Deployment {
    fn start(name: &str, environment: &Environment) -> Deployment {
        let mut deployment = Deployment::prepare(name, environment);
        for role in ROLES {
            for _ in 0..2 {
                let started = deployment.role(role);
                deployment.roles.push((role, started));
            }
        }
        deployment
    }

    /// With everything that roles need, and none of them.
    fn prepare(name: &str, environment: &Environment) -> Deployment {
        let variables = environment.variables().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let name = format!("{name}-{}", std::process::id());
        let deployment =
            Deployment { name, variables: variables.into(), roles: Vec::new(), dir: TempDir::new().unwrap() };
        assert!(deployment.command("provision").status().unwrap().success());
        deployment
    }

    fn command(&self, role: &str) -> std::process::Command {
        let mut command = conveyor();
        command.arg(role).envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.envs([
            ("CONVEYOR_AWS_TABLE", self.name.as_str()),
            ("CONVEYOR_AWS_QUEUE_PREFIX", &self.name),
            ("CONVEYOR_AWS_BUCKET", &self.name),
        ]);
        command
    }

    fn role(&self, role: &str) -> Process {
        self.role_with(role, &["--gateway-url", "demo:", "--slots", "128"])
    }

    fn role_with(&self, role: &str, flags: &[&str]) -> Process {
        let mut command = self.command(role);
        command.args(["--backend", "aws", "--listen", "127.0.0.1:0", "--api-key", KEY]);
        command.args(["--secret-key", &"0b".repeat(32), "--chunk-rows", "1000"]).args(flags);
        command.args(["--visibility-ms", "4000", "--aws-queue-empty-after-ms", "3000"]);
        command.args(["--aws-attempt-timeout-ms", "2000", "--aws-call-timeout-ms", "8000"]);
        command.arg("--data-dir").arg(self.dir.path()).env("CONVEYOR_LOG", "error");
        Process::start(command)
    }

    /// Sends a message to the queue of a run, again and again.
    async fn send(&self, environment: &Environment, run: &str, body: &str, times: usize) {
        let (id, secret) = (Environment::ACCESS_KEY_ID, Environment::SECRET_ACCESS_KEY);
        let config = aws_sdk_sqs::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(Environment::REGION))
            .credentials_provider(Credentials::new(id, secret, None, None, "tests"))
            .endpoint_url(&environment.sqs_url)
            .build();
        let sqs = aws_sdk_sqs::Client::from_conf(config);
        let queue = sqs.get_queue_url().queue_name(format!("{}-run-{run}", self.name)).send().await.unwrap();
        for _ in 0..times {
            let message = sqs.send_message().queue_url(queue.queue_url().unwrap()).message_body(body);
            message.send().await.unwrap();
        }
    }

    /// kill -9 and another in its place.
    fn replace(&mut self, place: usize) {
        let (role, process) = self.roles.remove(place);
        process.kill();
        let started = self.role(role);
        self.roles.insert(place, (role, started));
    }

    fn client(&self) -> Client {
        let (_, api) = self.roles.iter().find(|(role, _)| *role == "api").unwrap();
        Client::new(api)
    }

    /// Stages and submits a list; answers with its job.
    async fn submit(&self) -> String {
        let client = self.client();
        let list: String = (0..ROWS).map(|n| format!("https://example.com/products/{n}\n")).collect();
        let upload = client.upload(&json!({"type": "lines"}), list.into_bytes()).await;
        let body = json!({"status": "closed", "file_input_id": upload, "max_inflight": 10_000});
        let (status, answer) = client.post_json("/v1/jobs", &body).await;
        assert_eq!(status, 202, "{answer}");
        answer["job_id"].as_str().unwrap().to_owned()
    }

    /// The job, if the API answers; what it says must add up at every look.
    async fn look(&self, job: &str) -> Option<Value> {
        let (status, view) = self.client().try_get(&format!("/v1/jobs/{job}")).await.ok()?;
        if status == 503 {
            return None;
        }
        assert_eq!(status, 200, "{view}");
        let stats = &view["latest_run"]["stats"];
        assert!(stats["completed"].as_u64() <= stats["total"].as_u64(), "{view}");
        assert_ne!(view["latest_run"]["status"], "failed", "{view}");
        Some(view)
    }

    async fn check_exact(&self, job: &str) {
        let until = Instant::now() + DONE_WITHIN;
        let view = loop {
            match self.look(job).await {
                Some(view) if view["latest_run"]["status"] == "completed" => break view,
                other => assert!(Instant::now() < until, "not done: {other:?}"),
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        };
        let exactly = json!({"total": ROWS, "completed": ROWS, "successful": ROWS, "failed": 0});
        assert_eq!(view["latest_run"]["stats"], exactly);
        let results = self.client().results_by(job, 1000).await;
        let in_order = |(n, result): (usize, &Value)| {
            result["url"] == format!("https://example.com/products/{n}") && result["status"] == "successful"
        };
        assert!(
            results.len() == ROWS && results.iter().enumerate().all(in_order),
            "{} results",
            results.len()
        );
        let ids: HashSet<_> = results.iter().map(|r| r["task_id"].as_str().unwrap().to_owned()).collect();
        assert_eq!(ids.len(), ROWS);
        let (_, events) = self.client().get(&format!("/v1/jobs/{job}/events?limit=1000")).await;
        let kinds = events["events"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap());
        assert_eq!(kinds.filter(|kind| *kind == "run.completed").count(), 1, "completed once");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_role_can_be_killed_at_any_moment() {
    let mut deployment = Deployment::start("killed", &servers().await);
    let job = deployment.submit().await;
    let chance = Entropy::from_number(11);
    let mut kills = Vec::new();
    while kills.len() < 40 {
        tokio::time::sleep(Duration::from_millis(300 + chance.below(1_200))).await;
        let done = |view: &Value| view["latest_run"]["status"] == "completed";
        if deployment.look(&job).await.is_some_and(|view| done(&view)) {
            break;
        }
        let place = chance.below(deployment.roles.len() as u64) as usize;
        kills.push(deployment.roles[place].0);
        deployment.replace(place);
    }
    deployment.check_exact(&job).await;
    // Otherwise the test showed nothing.
    assert!(kills.len() >= 8, "done after {} kills", kills.len());
    assert!(ROLES.iter().all(|role| kills.contains(role)), "{kills:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_service_can_fail_in_every_way() {
    let real = servers().await;
    let upstreams = [("dynamodb", &real.dynamodb_url), ("sqs", &real.sqs_url), ("s3", &real.s3_url)];
    let proxies = upstreams.map(|(service, upstream)| Process::proxy(service, upstream));
    let [dynamodb_url, sqs_url, s3_url] = [0, 1, 2].map(|n| proxies[n].url.clone());
    let deployment = Deployment::start("faulty", &Environment { dynamodb_url, sqs_url, s3_url });
    let job = deployment.submit().await;
    // What only some of them know.
    let special =
        [json!({"conflict": 0.2, "partial": 0.2}), json!({"partial": 0.2}), json!({"delay_ms": [0, 200]})];
    let faults = |proxy: usize| {
        [
            json!({"throttle": 0.3}),
            json!({"drop_answers": 0.1, "drop_requests": 0.1}),
            special[proxy].clone(),
            json!({"blocked": true}),
        ]
    };
    let http = conveyor_outbound::client_builder().no_proxy().build().unwrap();
    let order = |proxy: usize, faults: Value| {
        let request = http.put(format!("{}/faults", proxies[proxy].control)).json(&faults);
        async move {
            let answer = request.send().await.unwrap();
            assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
        }
    };
    let (until, mut troubles, mut done) = (Instant::now() + DONE_WITHIN, 0, false);
    while !done {
        for (proxy, fault) in (0..3).flat_map(|proxy| faults(proxy).map(|fault| (proxy, fault))) {
            order(proxy, fault).await;
            tokio::time::sleep(Duration::from_millis(2_500)).await;
            order(proxy, json!({})).await;
            troubles += 1;
            tokio::time::sleep(Duration::from_millis(500)).await;
            done =
                deployment.look(&job).await.is_some_and(|view| view["latest_run"]["status"] == "completed");
            if done {
                break;
            }
        }
        assert!(Instant::now() < until, "not done");
    }
    deployment.check_exact(&job).await;
    assert!(troubles >= 12, "done after {troubles} troubles: not every service had every one");
    for (proxy, (service, _)) in proxies.iter().zip(upstreams) {
        let stats = http.get(format!("{}/stats", proxy.control)).send().await.unwrap().text().await.unwrap();
        let stats: Value = serde_json::from_str(&stats).unwrap();
        for fault in ["throttle", "drop_answers", "blocked"] {
            assert!(stats["faults"][fault].as_u64() > Some(0), "{service} never had {fault}: {stats}");
        }
    }
}

/// While a service does not answer the API says so, and is ready again by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_is_said_and_passes() {
    let real = servers().await;
    let upstreams = [("dynamodb", &real.dynamodb_url), ("sqs", &real.sqs_url), ("s3", &real.s3_url)];
    let proxies = upstreams.map(|(service, upstream)| Process::proxy(service, upstream));
    let [dynamodb_url, sqs_url, s3_url] = [0, 1, 2].map(|n| proxies[n].url.clone());
    let deployment = Deployment::start("outage", &Environment { dynamodb_url, sqs_url, s3_url });
    let client = deployment.client();
    let http = conveyor_outbound::client_builder().no_proxy().build().unwrap();
    for proxy in &proxies {
        let order =
            |blocked: bool| http.put(format!("{}/faults", proxy.control)).json(&json!({"blocked": blocked}));
        support::until("ready before", async || client.get("/readyz").await.0 == 200).await;
        order(true).send().await.unwrap();
        support::until("not ready", async || client.get("/readyz").await.0 == 503).await;
        order(false).send().await.unwrap();
        support::until("ready again", async || client.get("/readyz").await.0 == 200).await;
    }
    let dynamodb = |blocked: bool| {
        http.put(format!("{}/faults", proxies[0].control)).json(&json!({"blocked": blocked})).send()
    };
    dynamodb(true).await.unwrap();
    let answer = http.get(format!("{}/v1/jobs", client.url)).header("X-API-Key", KEY).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 503);
    assert!(answer.headers().contains_key("retry-after"));
    dynamodb(false).await.unwrap();
    let job = client.submit(&support::urls("after", 30)).await;
    client.wait_for(&job, &["completed"]).await;
}

/// SPEC 6.3, 6.4: five workers at the same task at the same time, as after five deliveries of its message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_in_five_hands_is_counted_once() {
    let environment = servers().await;
    let gateway = Process::gateway(&["--latency-ms", "1500"]);
    let mut deployment = Deployment::prepare("duplicate", &environment);
    let flags = ["--gateway-url", gateway.url.as_str(), "--slots", "1", "--attempts-max", "1"];
    for role in ["api", "sweeper"] {
        let started = deployment.role_with(role, &flags);
        deployment.roles.push((role, started));
    }
    let client = deployment.client();
    let mut jobs = Vec::new();
    for (target, outcome) in [("/ok", "successful"), ("/status/404", "failed")] {
        let job = client.submit(&[format!("https://example.com{target}")]).await;
        let (view, task) = (client.job(&job).await, client.results(&job).await[0]["task_id"].clone());
        let run = view["latest_run"]["run_id"].as_str().unwrap().to_owned();
        deployment.send(&environment, &run, &format!("1:{}:1", task.as_str().unwrap()), 4).await;
        jobs.push((job, outcome));
    }
    for _ in 0..5 {
        let worker = deployment.role_with("worker", &flags);
        deployment.roles.push(("worker", worker));
    }
    for (job, outcome) in jobs {
        let stats = client.wait_for(&job, &["completed"]).await["latest_run"]["stats"].clone();
        assert_eq!(
            (&stats["total"], &stats["completed"], &stats[outcome]),
            (&json!(1), &json!(1), &json!(1))
        );
    }
    // Otherwise the test showed nothing.
    let stats = Client::new(&gateway).get("/_stats").await.1;
    assert!(stats["max_in_flight"].as_u64() >= Some(4), "{stats}");
    assert!(stats["calls"].as_u64() >= Some(6), "no task was worked on by several: {stats}");
}
