//! What a failing service or a damaged row leaves behind, and who mends it (SPEC 5.4, 6.8, 6.14, 6.17).

use super::coupling::now;
use super::{Deployment, servers};
use crate::support::{self, Gateway, Process, until, until_fits, urls};
use aws_sdk_dynamodb::types::AttributeValue;
use conveyor_aws_servers::Environment;
use conveyor_testkit::eventually;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;

const OPERATOR_KEY: &str = "operator-key-0123456789";

/// The queues behind a proxy, for the roles that are to be cut off from them.
struct Proxied {
    proxy: Process,
    environment: Environment,
}

impl Proxied {
    fn start(real: &Environment) -> Proxied {
        let proxy = support::proxy("sqs", &real.sqs_url);
        let (dynamodb_url, s3_url) = (real.dynamodb_url.clone(), real.s3_url.clone());
        let environment = Environment { dynamodb_url, sqs_url: proxy.url.clone(), s3_url };
        Proxied { proxy, environment }
    }

    async fn order(&self, faults: &Value) {
        let http = conveyor_outbound::client_builder().no_proxy().build().unwrap();
        let request = http.put(format!("{}/faults", self.proxy.control)).json(faults);
        assert!(request.send().await.unwrap().status().is_success());
    }
}

fn tasks(name: &str, count: usize) -> Value {
    support::list(&urls(name, count))
}

/// Changes attributes of a row behind everybody's back.
async fn damage(deployment: &Deployment, environment: &Environment, row: (&str, &str), to: &[(&str, &str)]) {
    let dynamodb = deployment.clients(environment).await.dynamodb;
    for (name, value) in to {
        let update = dynamodb.update_item().table_name(&deployment.name);
        let update = update
            .key("pk", AttributeValue::S(row.0.to_owned()))
            .key("sk", AttributeValue::S(row.1.to_owned()))
            .update_expression("SET #name = :value")
            .expression_attribute_names("#name", *name);
        let value = value.parse::<u64>().map_or_else(
            |_| AttributeValue::S((*value).to_owned()),
            |number| AttributeValue::N(number.to_string()),
        );
        update.expression_attribute_values(":value", value).send().await.unwrap();
    }
}

/// SPEC 5.4: refs of an addition that were never sent are sent though the queue is never empty and additions go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refs_that_were_not_sent_are_sent_while_additions_go_on() {
    let real = servers().await;
    let proxied = Proxied::start(&real);
    let gateway = Gateway::start(1_000).await;
    // Its message is in flight for as long as the test lasts: the queue never empties.
    let first = urls("held", 1);
    gateway.hold(&first[0]);
    let flags = [
        "--gateway-url",
        &gateway.url,
        "--aws-refs-sent-within-ms",
        "1000",
        "--aws-attempts-max",
        "1",
        "--aws-call-timeout-ms",
        "4000",
        "--operator-key",
        OPERATOR_KEY,
    ];
    let mut deployment = Deployment::prepare("unsent", &proxied.environment, &flags);
    deployment.start(["api"]);
    let client = deployment.client();
    let mut open = support::list(&first);
    open["status"] = json!("open");
    let (status, job) = client.post_json("/v1/jobs", &open).await;
    assert_eq!(status, 201, "{job}");
    let (job, run) = (job["job_id"].as_str().unwrap(), job["latest_run"]["run_id"].as_str().unwrap());
    let (add, audit) = (format!("/v1/jobs/{job}/tasks"), format!("/v1/jobs/{job}/runs/{run}/audit"));
    // The others are not cut off.
    deployment.reach(&real);
    deployment.start(["worker"]);
    until("a message is in flight", async || gateway.in_flight() == 1).await;

    proxied.order(&json!({"throttle": 1.0})).await;
    let (status, answer) = client.post_json(&add, &tasks("lost", 20)).await;
    assert_eq!((status, &answer["accepted_tasks"]), (200, &json!(20)), "the rows count: {answer}");
    proxied.order(&json!({})).await;
    let named = |audit: &(u16, Value)| {
        let findings = audit.1["findings"].as_array().into_iter().flatten();
        findings.into_iter().any(|finding| finding["repair"] == "unsent_refs")
    };
    until_fits("an audit names what was not sent", async || client.get(&audit).await, named).await;
    let operator = support::Client::with_key(&deployment.roles[0].1, OPERATOR_KEY);
    let dry_run = json!({"dry_run": true});
    let reconcile = async || operator.post_json("/v1/admin/reconcile", &dry_run).await;
    until_fits("and so does a reconciliation", reconcile, named).await;

    deployment.start(["sweeper"]);
    let mut total = 21;
    until("every task but the one that is held is done", async || {
        let (status, answer) = client.post_json(&add, &tasks(&format!("more-{total}"), 1)).await;
        assert_eq!(status, 200, "{answer}");
        total += 1;
        client.job(job).await["latest_run"]["stats"]["completed"].as_u64() >= Some(20)
            && gateway.calls().keys().filter(|url| url.contains("/lost/")).count() == 20
    })
    .await;
    gateway.open();
    assert_eq!(client.post(&format!("/v1/jobs/{job}/close")).await.0, 200);
    let stats = client.wait_for(job, &["completed"]).await["latest_run"]["stats"].clone();
    assert_eq!((&stats["total"], &stats["successful"]), (&json!(total), &json!(total)));
}

/// SPEC 5.4: additions that were given up do not lock an open job; of their rows nothing is seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn additions_that_failed_do_not_lock_a_job() {
    let environment = servers().await;
    let mut deployment = Deployment::prepare("holes", &environment, &["--gateway-url", "demo:"]);
    deployment.start(["api", "worker", "sweeper"]);
    let client = deployment.client().patient();
    let mut open = tasks("first", 1);
    open["status"] = json!("open");
    let (_, job) = client.post_json("/v1/jobs", &open).await;
    let (job, run) = (job["job_id"].as_str().unwrap(), job["latest_run"]["run_id"].as_str().unwrap());
    client.wait_for(job, &["pending"]).await;
    // What 256 additions leave that reserved their indexes and never got to count their rows.
    let holes: Vec<(u32, u32)> = (1..=256).map(|n| (n, n + 1)).collect();
    let long_ago = serde_json::to_string(&vec![1; holes.len()]).unwrap();
    let holes = serde_json::to_string(&holes).unwrap();
    let row = (format!("Job#{job}"), format!("R#{run}"));
    let left = [("hs", &*long_ago), ("holes", &holes), ("nxt", "257")];
    damage(&deployment, &environment, (&row.0, &row.1), &left).await;
    for n in 0..3 {
        let (status, answer) = deployment
            .client()
            .post_json(&format!("/v1/jobs/{job}/tasks"), &tasks(&format!("more-{n}"), 10))
            .await;
        assert_eq!(status, 200, "{answer}");
    }
    assert_eq!(client.post(&format!("/v1/jobs/{job}/close")).await.0, 200);
    let stats = client.wait_for(job, &["completed"]).await["latest_run"]["stats"].clone();
    assert_eq!((&stats["total"], &stats["successful"]), (&json!(31), &json!(31)));
    assert_eq!(client.results(job).await.len(), 31);
    let (status, audit) = client.get(&format!("/v1/jobs/{job}/runs/{run}/audit")).await;
    assert_eq!((status, &audit["agrees"]), (200, &json!(true)), "{audit}");
}

/// SPEC 6.14: a damaged row costs only itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_row_costs_only_itself() {
    let environment = servers().await;
    let flags = ["--gateway-url", "demo:", "--operator-key", OPERATOR_KEY];
    let mut deployment = Deployment::prepare("damaged", &environment, &flags);
    deployment.start(["api"]);
    let client = deployment.client();
    let (input, result, whole) = (
        client.submit(&urls("input", 3)).await,
        client.submit(&urls("result", 3)).await,
        client.submit(&urls("job", 1)).await,
    );
    let mut second = HashMap::new();
    for job in [&input, &result] {
        let (view, results) = (client.job(job).await, client.results(job).await);
        let run = view["latest_run"]["run_id"].as_str().unwrap();
        let task = results[1]["task_id"].as_str().unwrap();
        second.insert(job.clone(), (format!("Job#{job}"), format!("T#{run}#{task}"), run.to_owned()));
    }
    let (pk, sk, run) = &second[&input];
    damage(&deployment, &environment, (pk, sk), &[("inp", "garbage")]).await;
    deployment.start(["worker", "sweeper"]);
    let stats = client.wait_for(&input, &["completed"]).await["latest_run"]["stats"].clone();
    assert_eq!((&stats["successful"], &stats["failed"]), (&json!(2), &json!(1)), "{stats}");
    let results = client.results(&input).await;
    assert_eq!(results.len(), 3);
    assert_eq!((&results[1]["status"], &results[1]["error"]["code"]), (&json!("failed"), &json!("damaged")));
    let (_, audit) = client.get(&format!("/v1/jobs/{input}/runs/{run}/audit")).await;
    let named = audit["disagreements"][0].as_str().unwrap_or_default().to_owned();
    assert!(named.contains("input") && named.contains(results[1]["task_id"].as_str().unwrap()), "{audit}");

    client.wait_for(&result, &["completed"]).await;
    let (pk, sk, _) = &second[&result];
    damage(&deployment, &environment, (pk, sk), &[("res", "garbage")]).await;
    let results = client.results(&result).await;
    let codes: Vec<&Value> = results.iter().map(|row| &row["error"]["code"]).collect();
    assert_eq!(codes, [&Value::Null, &json!("damaged"), &Value::Null]);

    damage(&deployment, &environment, (&format!("Job#{whole}"), "A"), &[("doc", "garbage")]).await;
    let (status, jobs) = client.get("/v1/jobs").await;
    let listed: Vec<&Value> = jobs["jobs"].as_array().unwrap().iter().map(|job| &job["job_id"]).collect();
    assert_eq!((status, listed), (200, vec![&json!(result), &json!(input)]));
    let operator = support::Client::with_key(&deployment.roles[0].1, OPERATOR_KEY);
    let (status, found) = operator.post_json("/v1/admin/reconcile", &json!({"dry_run": true})).await;
    let mut findings = found["findings"].as_array().into_iter().flatten();
    let named = findings.any(|found| found["repair"] == "damaged_rows" && found["subject"]["id"] == whole);
    assert!(status == 200 && named, "{found}");
}

/// SPEC 6.17: a schedule fires in time though every look at a queue hangs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_fires_while_other_repairs_hang() {
    let real = servers().await;
    let proxied = Proxied::start(&real);
    proxied.order(&json!({"blocked": true})).await;
    // Far longer than the test waits.
    let flags =
        ["--gateway-url", "demo:", "--aws-attempt-timeout-ms", "600000", "--aws-call-timeout-ms", "600000"];
    let mut deployment = Deployment::prepare("hung", &real, &flags);
    deployment.start(["api"]);
    let client = deployment.client();
    client.submit(&urls("unfinished", 1)).await;
    deployment.reach(&proxied.environment);
    deployment.start(["sweeper"]);
    let job = eventually("a time that has not passed yet is taken", async || {
        let at = now(&client).await.after(Duration::from_secs(3)).to_string();
        let mut body = tasks("scheduled", 1);
        body["type"] = json!("scheduled");
        body["schedule"] = json!({"at": at[..19], "timezone": "UTC"});
        let (status, job) = client.post_json("/v1/jobs", &body).await;
        (status == 201).then(|| job["job_id"].as_str().unwrap().to_owned())
    })
    .await;
    let job = job.as_str();
    until("it fires", async || client.job(job).await["latest_run"]["run_sequence"] == 1).await;
}
