//! SPEC 6.18 on the AWS backend: the table is lost, and a job is rebuilt from the bucket beside live roles.

#![expect(clippy::unwrap_used, reason = "in a test, an unwrap that fails is the report")]

#[path = "rebuild/gateway.rs"]
mod gateway;
mod support;

use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::types::AttributeValue;
use conveyor_aws_servers::{Combination, Environment};
use gateway::Gateway;
use serde_json::{Value, json};
use std::process::Command;
use support::{Client, KEY, Process, conveyor};
use tempfile::TempDir;

const LINES: usize = 3_000;
const DONE: usize = 1_000;

struct Deployment {
    name: String,
    variables: Vec<(String, String)>,
    gateway: Gateway,
    dir: TempDir,
}

impl Deployment {
    fn command(&self, command: &str) -> Command {
        let mut process = conveyor();
        process.arg(command).envs(self.variables.iter().map(|(name, value)| (name, value)));
        process.envs([
            ("CONVEYOR_AWS_TABLE", self.name.as_str()),
            ("CONVEYOR_AWS_QUEUE_PREFIX", &self.name),
            ("CONVEYOR_AWS_BUCKET", &self.name),
            ("CONVEYOR_AWS_QUEUE_EMPTY_AFTER_MS", "3000"),
        ]);
        process
    }

    fn provision(&self) {
        assert!(self.command("provision").status().unwrap().success());
    }

    /// One of every role; the first is the API.
    fn roles(&self) -> Vec<Process> {
        let role = |role| {
            let mut command = self.command(role);
            command.args(["--backend", "aws", "--listen", "127.0.0.1:0", "--api-key", KEY]);
            command.args(["--secret-key", &"0b".repeat(32), "--chunk-rows", "1000"]);
            command.args(["--gateway-url", &self.gateway.url, "--visibility-ms", "4000"]);
            command.arg("--data-dir").arg(self.dir.path()).env("CONVEYOR_LOG", "error");
            Process::start(command)
        };
        ["api", "ingest", "worker", "sweeper"].map(role).into()
    }

    fn rebuild(&self, job: &str) -> Value {
        let mut command = self.command("rebuild");
        command.args([job, "--backend", "aws", "--json", "--owner-key", KEY, "--resume"]);
        let output = support::run(command);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// What a rebuild says that cannot be done.
    fn refused(&self, job: &str) -> Value {
        let mut command = self.command("rebuild");
        command.args([job, "--backend", "aws", "--json"]);
        let output = support::run(command);
        assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
        serde_json::from_slice(&output.stderr).unwrap()
    }

    async fn lose_table(&self, environment: &Environment) {
        dynamodb(environment).delete_table().table_name(&self.name).send().await.unwrap();
    }

    /// Makes a run so many days older.
    async fn make_older(&self, environment: &Environment, job: &str, run: &str, days: i64) {
        let age_ms = AttributeValue::N((days * 86_400_000).to_string());
        let update = dynamodb(environment).update_item().table_name(&self.name);
        let update = update.key("pk", AttributeValue::S(format!("Job#{job}")));
        let update = update.key("sk", AttributeValue::S(format!("R#{run}")));
        let update = update.condition_expression("attribute_exists(ca)");
        let update =
            update.update_expression("SET ca = ca - :age").expression_attribute_values(":age", age_ms);
        update.send().await.unwrap();
    }
}

fn dynamodb(environment: &Environment) -> aws_sdk_dynamodb::Client {
    let (id, secret) = (Environment::ACCESS_KEY_ID, Environment::SECRET_ACCESS_KEY);
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(Environment::REGION))
        .credentials_provider(Credentials::new(id, secret, None, None, "tests"))
        .endpoint_url(&environment.dynamodb_url)
        .build();
    aws_sdk_dynamodb::Client::from_conf(config)
}

/// Every result, with its body.
async fn seen(client: &Client, job: &str) -> Vec<(String, String, String, Option<String>)> {
    let mut tasks = Vec::new();
    for result in client.results_by(job, 1000).await {
        let text = |name: &str| result[name].as_str().unwrap_or_default().to_owned();
        let body = match result["result_url"].as_str() {
            Some(url) => Some(client.text(url).await.1),
            None => None,
        };
        tasks.push((text("task_id"), text("url"), text("status"), body));
    }
    tasks
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_table_is_made_anew_beside_live_roles() {
    let environment =
        tokio::task::spawn_blocking(|| Environment::shared(Combination::Default)).await.unwrap().unwrap();
    let variables = environment.variables().map(|(name, value)| (name.to_owned(), value.to_owned()));
    let deployment = Deployment {
        name: format!("rebuilt-{}", std::process::id()),
        variables: variables.into(),
        gateway: Gateway::start(DONE).await,
        dir: TempDir::new().unwrap(),
    };
    deployment.provision();
    let roles = deployment.roles();
    let client = Client::new(&roles[0]);
    let lines = (0..LINES).map(|n| match n % 100 {
        7 => format!("not a URL {n}\n"),
        11 => format!("https://example.com/large/{n}\n"),
        _ => format!("https://example.com/page/{n}\n"),
    });
    let upload = client.upload(&json!({"type": "lines"}), lines.collect::<String>().into_bytes()).await;
    let submit = json!({"status": "closed", "file_input_id": upload, "max_inflight": 100});
    let (status, answer) = client.post_json("/v1/jobs", &submit).await;
    assert!(matches!(status, 201 | 202), "{answer}");
    let job = answer["job_id"].as_str().unwrap().to_owned();
    support::until("so many are done, and the list is read", async || {
        let run = &client.job(&job).await["latest_run"];
        run["stats"]["completed"] == DONE && run["ingest_status"] != "pending"
    })
    .await;
    let before = seen(&client, &job).await;
    assert_eq!(before.len(), LINES - LINES / 100);
    roles.into_iter().for_each(Process::kill);

    deployment.lose_table(&environment).await;
    deployment.provision();
    let roles = deployment.roles();
    let client = Client::new(&roles[0]);
    assert_eq!(client.get(&format!("/v1/jobs/{job}")).await.0, 404, "it is lost");
    let report = deployment.rebuild(&job);
    let rows = json!({"total": before.len(), "written": before.len(), "missing": 0});
    assert_eq!(report["rows"], rows, "{report}");
    assert_eq!(report["results"]["restored"], DONE, "{report}");
    assert_eq!((&report["run"]["status"], &report["run"]["paused"]), (&json!("running"), &json!(false)));
    let again = deployment.rebuild(&job);
    assert_eq!((&again["rows"]["written"], &again["results"]["restored"]), (&json!(0), &json!(0)), "{again}");

    deployment.gateway.open();
    client.wait_for(&job, &["completed"]).await;
    let after = seen(&client, &job).await;
    assert_eq!(after.len(), before.len());
    let calls = deployment.gateway.calls();
    for (before, after) in before.iter().zip(&after) {
        assert_eq!((&before.0, &before.1), (&after.0, &after.1), "the same tasks in the same order");
        assert_eq!(after.2, "successful");
        if before.3.is_some() {
            assert_eq!(after, before, "what was done stays as it is");
            assert_eq!(calls[&before.1], 1, "{} was fetched again", before.1);
        }
    }
    let run = client.job(&job).await["latest_run"]["run_id"].as_str().unwrap().to_owned();
    let (status, audit) = client.get(&format!("/v1/jobs/{job}/runs/{run}/audit")).await;
    assert_eq!((status, &audit["agrees"]), (200, &json!(true)), "{audit}");

    // Rows go one by one here, each thirty days after its own end, however late their run ended.
    deployment.make_older(&environment, &job, &run, 28).await;
    deployment.rebuild(&job);
    deployment.make_older(&environment, &job, &run, 1).await;
    let problem = deployment.refused(&job);
    assert_eq!(problem["code"], "not_rebuildable", "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("past their time"), "{problem}");
}
