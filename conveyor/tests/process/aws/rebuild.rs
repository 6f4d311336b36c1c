//! SPEC 6.18 on the AWS backend: the table is lost, and a job is rebuilt from the bucket beside live roles.

use super::{Deployment, ROLES, servers};
use crate::support::{self, Client, Gateway, KEY, Process, sized};
use aws_sdk_dynamodb::types::AttributeValue;
use conveyor_aws_servers::Environment;
use serde_json::{Value, json};

impl Deployment {
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
        let dynamodb = self.clients(environment).await.dynamodb;
        dynamodb.delete_table().table_name(&self.name).send().await.unwrap();
    }

    /// Makes a run so many days older.
    async fn make_older(&self, environment: &Environment, job: &str, run: &str, days: i64) {
        let age_ms = AttributeValue::N((days * 86_400_000).to_string());
        let update = self.clients(environment).await.dynamodb.update_item().table_name(&self.name);
        let update = update.key("pk", AttributeValue::S(format!("Job#{job}")));
        let update = update.key("sk", AttributeValue::S(format!("R#{run}")));
        let update = update.condition_expression("attribute_exists(ca)");
        let update =
            update.update_expression("SET ca = ca - :age").expression_attribute_values(":age", age_ms);
        update.send().await.unwrap();
    }
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

const MAX_INFLIGHT: usize = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_table_is_made_anew_beside_live_roles() {
    let (lines, done) = (sized(600, 3_000), sized(200, 1_000));
    let environment = servers().await;
    let gateway = Gateway::start(done).await;
    let flags = ["--gateway-url", &gateway.url, "--inline-tasks-max", "100", "--chunk-rows", "200"];
    let mut deployment = Deployment::prepare("rebuilt", &environment, &flags);
    deployment.start(ROLES);
    let client = deployment.client();
    let list = (0..lines).map(|n| match n % 100 {
        7 => format!("not a URL {n}\n"),
        11 => format!("https://example.com/large/{n}\n"),
        _ => format!("https://example.com/page/{n}\n"),
    });
    let job = client.submit_lines(list.collect(), json!({"max_inflight": MAX_INFLIGHT})).await;
    support::until("so many are done at least, and the list is read", async || {
        let run = &client.job(&job).await["latest_run"];
        let completed = run["stats"]["completed"].as_u64().unwrap() as usize;
        // All permits wait at the gateway: an answer went to a call whose message had been delivered twice.
        if completed < done && gateway.in_flight() >= MAX_INFLIGHT {
            gateway.allow_next();
        }
        completed >= done && run["ingest_status"] != "pending"
    })
    .await;
    let before = seen(&client, &job).await;
    assert_eq!(before.len(), lines - lines / 100);
    let with_body = before.iter().filter(|(_, _, _, body)| body.is_some()).count();
    let called = gateway.calls();
    deployment.roles.drain(..).for_each(|(_, process)| Process::kill(process));

    deployment.lose_table(&environment).await;
    deployment.provision();
    deployment.start(ROLES);
    let client = deployment.client();
    assert_eq!(client.get(&format!("/v1/jobs/{job}")).await.0, 404, "it is lost");
    let report = deployment.rebuild(&job);
    let rows = json!({"total": before.len(), "written": before.len(), "missing": 0});
    assert_eq!(report["rows"], rows, "{report}");
    // One more may have been allowed while the last of them was counted, and have ended after all were read.
    let restored = report["results"]["restored"].as_u64().unwrap() as usize;
    assert!(restored >= done && restored >= with_body, "{with_body} seen: {report}");
    assert_eq!((&report["run"]["status"], &report["run"]["paused"]), (&json!("running"), &json!(false)));
    let again = deployment.rebuild(&job);
    assert_eq!((&again["rows"]["written"], &again["results"]["restored"]), (&json!(0), &json!(0)), "{again}");

    gateway.open();
    client.wait_for(&job, &["completed"]).await;
    let after = seen(&client, &job).await;
    assert_eq!(after.len(), before.len());
    let calls = gateway.calls();
    for (before, after) in before.iter().zip(&after) {
        assert_eq!((&before.0, &before.1), (&after.0, &after.1), "the same tasks in the same order");
        assert_eq!(after.2, "successful");
        if before.3.is_some() {
            assert_eq!(after, before, "what was done stays as it is");
            assert_eq!(calls[&before.1], called[&before.1], "{} was fetched again", before.1);
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
