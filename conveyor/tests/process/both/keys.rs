//! Keys on the command line: made by an operator, good over a kill and a restart, refused once they are revoked.

use crate::support::{
    self, Client, Gateway, KEY, Process, conveyor, on_aws, run, server_command, until, urls,
};
use conveyor_domain::limits;
use serde_json::{Value, json};
use std::ops::Range;
use std::process::Output;
use tempfile::TempDir;

const OPERATOR_KEY: &str = "operator-key-0123456789";

fn serve(dir: &TempDir) -> Process {
    serve_with(dir, &["--gateway-url", "demo:"])
}

fn serve_with(dir: &TempDir, flags: &[&str]) -> Process {
    let mut command = server_command(&dir.path().join("data"), flags);
    command.args(["--operator-key", OPERATOR_KEY]);
    Process::start(command)
}

fn keys(server: &Process, operator: &str, args: &[&str]) -> Output {
    let mut command = conveyor();
    command.arg("keys").args(args).env("CONVEYOR_SERVER", &server.url).env("CONVEYOR_OPERATOR_KEY", operator);
    run(command)
}

#[track_caller]
fn made(output: &Output) -> (String, String) {
    assert!(output.status.success(), "{output:?}");
    let key: Value = serde_json::from_slice(&output.stdout).unwrap();
    (key["key_id"].as_str().unwrap().to_owned(), key["key"].as_str().unwrap().to_owned())
}

async fn status(server: &Process, key: &str) -> u16 {
    Client::with_key(server, key).get("/v1/jobs").await.0
}

#[tokio::test]
async fn keys_that_were_made_outlive_a_kill_and_revoked_ones_do_not_come_back() {
    let dir = TempDir::new().unwrap();
    let server = serve(&dir);
    let (_, operator) = made(&keys(&server, OPERATOR_KEY, &["create", "on call", "--operator", "--json"]));
    // The one that was made makes the next.
    let (kept, kept_key) =
        made(&keys(&server, &operator, &["create", "kept", "--active-jobs", "0", "--json"]));
    let (revoked, revoked_key) = made(&keys(&server, &operator, &["create", "revoked", "--json"]));
    assert_eq!((status(&server, &kept_key).await, status(&server, &revoked_key).await), (200, 200));
    assert!(keys(&server, &operator, &["revoke", &revoked]).status.success());
    // The process that revoked it refuses it at once, others within 5 s.
    until("the key is refused", async || status(&server, &revoked_key).await == 401).await;
    server.kill();

    let server = serve(&dir);
    for (key, expected) in [(KEY, 200), (kept_key.as_str(), 200), (revoked_key.as_str(), 401)] {
        assert_eq!(status(&server, key).await, expected);
    }
    let body = support::list(&urls("over", 1));
    let (code, problem) = Client::with_key(&server, &kept_key).try_submit(&body).await.unwrap();
    assert_eq!((code, &problem["code"]), (429, &Value::from("quota_exceeded")));
    let listed = keys(&server, &operator, &["list"]);
    let text = String::from_utf8(listed.stdout).unwrap();
    assert!(text.contains(&kept) && text.contains("jobs 0") && !text.contains(&kept_key), "{text}");
    let wrong = keys(&server, KEY, &["list"]);
    assert_eq!(wrong.status.code(), Some(1), "a caller's key is no operator's");
    server.stop().await;
}

/// Lists and jobs that are larger than they may be: refused, or where nobody had the time to count a list, failed before a
/// task of it is there. One server for all of them: on AWS it takes long to start.
#[tokio::test]
async fn what_is_over_a_limit_makes_no_task_and_no_call() {
    let (gateway, dir) = (Gateway::start(0).await, TempDir::new().unwrap());
    gateway.open();
    let lists = ["--inline-tasks-max", "5", "--run-tasks-max", "200", "--count-within-ms", "0"];
    let server = serve_with(&dir, &[&["--gateway-url", &gateway.url], &lists[..]].concat());
    let create = ["create", "small", "--queued-tasks", "150", "--json"];
    let (_, small_key) = made(&keys(&server, OPERATOR_KEY, &create));
    let (client, small) = (Client::new(&server), Client::with_key(&server, &small_key));
    let upload = async |client: &Client, rows: usize| {
        let upload =
            client.upload(&json!({"type": "lines"}), urls("over", rows).join("\n").into_bytes()).await;
        client.post_json("/v1/jobs", &json!({"file_input_id": upload})).await
    };
    for (client, rows, status, code) in
        [(&client, 201, 413, "too_many_rows"), (&small, 200, 429, "quota_exceeded")]
    {
        let (answered, body) = upload(client, rows).await;
        if !on_aws() {
            assert_eq!((answered, &body["code"]), (status, &json!(code)), "{body}");
            continue;
        }
        assert_eq!((answered, &body["total_is_final"]), (202, &json!(false)), "{body}");
        let job = body["job_id"].as_str().unwrap();
        let run = client.wait_for(job, &["failed"]).await["latest_run"].clone();
        assert_eq!(run["failure_reason"], "ingest_failed");
        assert!(run["failure_detail"].as_str().unwrap().starts_with(code), "{run}");
        assert_eq!(client.results(job).await, Vec::<Value>::new());
    }
    // Those that fit are drained: so the workers had their chance at the others too.
    for (client, rows) in [(&client, 200), (&small, 150)] {
        let (status, body) = upload(client, rows).await;
        assert_eq!(status, 202, "{body}");
        client.wait_for(body["job_id"].as_str().unwrap(), &["completed"]).await;
    }
    assert_eq!(gateway.calls_in_all(), 350);
    the_largest_job_is_stored(&client).await;
    server.stop().await;
}

/// A job with so many long names of domains, so long a name of its own, and headers, which are longer once they are sealed.
fn large_job(domains: usize, metadata: usize) -> Value {
    let name = |n: usize| format!("{n:0>3}{}", ".xxxxxxxxxxxxxxxxxxx".repeat(12));
    let domains: Value = (0..domains).map(|n| (name(n), json!({"max_inflight": 1}))).collect();
    json!({
        "tasks": [{"url": "https://example.com/large"}],
        "domain_limits": domains,
        "metadata": {"k": "x".repeat(metadata)},
        "zenrows_params": {"custom_headers": {"Cookie": "c".repeat(4_000)}},
    })
}

/// An item of DynamoDB has room for the largest job that is accepted.
async fn the_largest_job_is_stored(client: &Client) {
    let fits = async |domains, metadata| {
        let dry = client.post_json("/v1/jobs?dry_run=true", &large_job(domains, metadata)).await;
        assert!([200, 400].contains(&dry.0), "{}", dry.1);
        dry.0 == 200
    };
    let domains = most(1..limits::DOMAIN_LIMITS_MAX, async |domains| fits(domains, 0).await).await;
    let metadata = most(0..limits::METADATA_VALUE_MAX, async |bytes| fits(domains, bytes).await).await;
    let (status, refused) = client.post_json("/v1/jobs", &large_job(domains, metadata + 1)).await;
    assert_eq!((status, &refused["code"]), (400, &json!("invalid_argument")), "{refused}");
    assert!(refused["detail"].as_str().unwrap().contains("`job_document_max_bytes`"), "{refused}");
    let (status, made) = client.post_json("/v1/jobs", &large_job(domains, metadata)).await;
    assert_eq!(status, 201, "{made}");
    client.wait_for(made["job_id"].as_str().unwrap(), &["completed"]).await;
}

/// The largest number that fits. The first of them does, the end does not.
async fn most(numbers: Range<usize>, fits: impl AsyncFn(usize) -> bool) -> usize {
    let Range { mut start, mut end } = numbers;
    assert!(fits(start).await && !fits(end).await, "neither all nor none fit");
    while end - start > 1 {
        let middle = start.midpoint(end);
        *(if fits(middle).await { &mut start } else { &mut end }) = middle;
    }
    start
}
