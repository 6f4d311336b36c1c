//! The command line as a user meets it.

use crate::support::{self, KEY, Process, conveyor, run};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};
use tempfile::TempDir;

fn demo(dir: &Path) -> Process {
    support::server(&dir.join("data"), &["--gateway-url", "demo:"])
}

fn client(server: &Process, args: &[&str]) -> Output {
    let mut command = conveyor();
    command.args(args).env("CONVEYOR_SERVER", &server.url).env("CONVEYOR_API_KEY", KEY);
    run(command)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("not one JSON document: {output:?}"))
}

#[tokio::test]
async fn submit_watch_status_results_delete() {
    let dir = TempDir::new().unwrap();
    let server = demo(dir.path());
    let list = dir.path().join("urls.txt");
    let urls: Vec<String> = (0..100).map(|i| format!("https://example.com/{i}")).collect();
    std::fs::write(&list, urls.join("\n")).unwrap();

    let submitted = client(&server, &["submit", list.to_str().unwrap(), "--watch"]);
    assert!(submitted.status.success(), "{submitted:?}");
    let job = text(&submitted.stdout).lines().next().unwrap().to_owned();

    let status = client(&server, &["status", &job, "--json"]);
    assert_eq!(json(&status)["latest_run"]["stats"]["successful"], 100);

    let listed = client(&server, &["results", &job, "--json", "--status", "successful"]);
    assert_eq!(json(&listed)["results"].as_array().unwrap().len(), 100);

    let out = dir.path().join("out");
    let downloaded = client(&server, &["results", &job, "--out", out.to_str().unwrap()]);
    assert!(downloaded.status.success(), "{downloaded:?}");
    let pages = std::fs::read_dir(&out).unwrap().map(|e| e.unwrap().path());
    let pages: Vec<_> = pages.filter(|p| p.extension().is_some_and(|e| e == "html")).collect();
    assert_eq!(pages.len(), 100);

    assert_eq!(client(&server, &["stop", &job]).status.code(), Some(1), "a completed run cannot be stopped");
    assert!(client(&server, &["delete", &job]).status.success());
}

#[tokio::test]
async fn lists_come_from_stdin_csv_jsonl_and_arguments() {
    let dir = TempDir::new().unwrap();
    let server = demo(dir.path());
    let mut command = conveyor();
    command.args(["submit", "-", "--json", "--watch", "--server", &server.url, "--api-key", KEY]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let csv = "name,url,external_id\na,https://example.com/a,x1\nb,https://example.com/b,x2\n";
    child.stdin.take().unwrap().write_all(csv.as_bytes()).unwrap();
    let done = json(&child.wait_with_output().unwrap());
    assert_eq!(done["latest_run"]["stats"]["total"], 2);
    let job = done["job_id"].as_str().unwrap();
    let results = json(&client(&server, &["results", job, "--json"]));
    assert_eq!(results["results"][1]["external_id"], "x2");

    let jsonl = dir.path().join("list.jsonl");
    std::fs::write(&jsonl, "{\"url\": \"https://example.com/j\", \"metadata\": {\"k\": \"v\"}}\n").unwrap();
    let args = ["submit", jsonl.to_str().unwrap(), "https://example.com/arg", "--json", "--watch"];
    let done = json(&client(&server, &args));
    assert_eq!(done["latest_run"]["stats"]["successful"], 2);
}

#[tokio::test]
async fn limits_are_shown_and_changed_and_a_run_is_paused() {
    let dir = TempDir::new().unwrap();
    let server = demo(dir.path());
    let list = dir.path().join("urls.txt");
    let urls: Vec<String> = (0..50).map(|i| format!("https://example.com/{i}")).collect();
    std::fs::write(&list, urls.join("\n")).unwrap();
    // One in a thousand seconds: it will not end by itself.
    let slow =
        ["submit", list.to_str().unwrap(), "--rate", "0.001", "--domain-limit", "example.com=inflight=9"];
    let submitted = client(&server, &slow);
    assert!(submitted.status.success(), "{submitted:?}");
    let job = text(&submitted.stdout).trim().to_owned();
    let api = support::Client::new(&server);
    support::until("the burst of one is used up", async || {
        api.get(&format!("/v1/jobs/{job}/limits")).await.1["waiting"]["reason"] == "rate_limited"
    })
    .await;

    let shown = text(&client(&server, &["limits", &job]).stdout);
    for line in ["0.001/s, burst 1: 0 left", "of 100 held", "rate_limited: The rate of 0.001 a second"] {
        assert!(shown.contains(line), "{shown}");
    }
    assert!(text(&client(&server, &["status", &job]).stdout).contains("rate_limited:"));
    let all = json(&client(&server, &["leases", "--json"]));
    assert_eq!(all["leases"][0]["job_id"], job.as_str());
    assert_eq!(
        json(&client(&server, &["leases", &job, "--json"]))["leases"][0]["run_id"],
        all["leases"][0]["run_id"]
    );

    let paused = client(&server, &["pause", &job]);
    assert!(text(&paused.stdout).contains("running, paused: "), "{paused:?}");
    let changed = client(
        &server,
        &["limits", &job, "--no-rate", "--max-inflight", "7", "--attempts-max", "2", "--json"],
    );
    let changed = json(&changed);
    assert_eq!((&changed["max_inflight"], &changed["retry"]["attempts_max"]), (&7.into(), &2.into()));
    assert_eq!((changed.get("rate_limit"), &changed["waiting"]["reason"]), (None, &"paused".into()));
    assert!(text(&client(&server, &["status", &job]).stdout).contains("running, paused"));

    assert!(client(&server, &["resume", &job]).status.success());
    let watched = client(&server, &["limits", &job, "--watch", "--json"]);
    let last: Value = serde_json::from_str(text(&watched.stdout).lines().last().unwrap()).unwrap();
    assert_eq!((watched.status.code(), &last["waiting"]["reason"]), (Some(0), &"ended".into()));
    let done = api.job(&job).await;
    assert_eq!(
        (&done["latest_run"]["status"], &done["latest_run"]["stats"]["successful"]),
        (&"completed".into(), &50.into())
    );
    assert_eq!(client(&server, &["pause", &job]).status.code(), Some(1), "it has ended");
    assert_eq!(client(&server, &["limits", &job, "--rate", "0"]).status.code(), Some(2));
}

#[tokio::test]
async fn what_is_wrong_is_said_and_costs_nothing() {
    let dir = TempDir::new().unwrap();
    let server = demo(dir.path());
    let bad = dir.path().join("bad.txt");
    std::fs::write(&bad, "https://example.com/ok\nnot-a-url\nftp://example.com/x\n").unwrap();
    let refused = client(&server, &["submit", bad.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused.stderr);
    assert!(said.contains("malformed_url") && said.contains("unsupported_scheme"), "{said}");
    // With `--json`, an error is a document on stderr.
    let unknown = client(&server, &["results", "nope", "--json"]);
    let problem: Value = serde_json::from_slice(&unknown.stderr).unwrap();
    assert_eq!((unknown.status.code(), &problem["code"]), (Some(1), &Value::from("not_found")));

    assert_eq!(client(&server, &["submit", "/no/such/file"]).status.code(), Some(2));
    assert_eq!(client(&server, &["submit"]).status.code(), Some(2));
    let (status, page) = support::Client::new(&server).get("/v1/jobs").await;
    assert_eq!((status, page["jobs"].as_array().unwrap().len()), (200, 0), "something was accepted");
}

#[tokio::test]
async fn a_run_is_audited_and_deleted() {
    const OPERATOR_KEY: &str = "operator-key-0123456789";
    let dir = TempDir::new().unwrap();
    let flags = ["--gateway-url", "demo:", "--operator-key", OPERATOR_KEY];
    let server = support::server(&dir.path().join("data"), &flags);
    let api = support::Client::new(&server);
    let job = api.submit(&support::urls("audited", 20)).await;
    let run_id =
        api.wait_for(&job, &["completed"]).await["latest_run"]["run_id"].as_str().unwrap().to_owned();
    let audit = client(&server, &["audit", &job, "--run", &run_id, "--json"]);
    assert_eq!((audit.status.code(), &json(&audit)["agrees"]), (Some(0), &true.into()), "{audit:?}");
    assert_eq!(json(&audit)["results"]["present"], 20);
    assert!(text(&client(&server, &["audit", &job]).stdout).contains("everything agrees"));

    let deleted = client(&server, &["delete", &job, "--run", &run_id]);
    assert!(deleted.status.success() && text(&deleted.stdout).contains(&run_id), "{deleted:?}");
    support::until("the run is removed", async || {
        // No sweep has to be waited for. It is upkeep: nothing was wrong.
        let mut command = conveyor();
        command.args(["reconcile", "--server", &server.url, "--operator-key", OPERATOR_KEY]);
        let reconciled = run(command);
        assert_eq!(reconciled.status.code(), Some(0), "{reconciled:?}");
        api.job(&job).await.get("latest_run").is_none()
    })
    .await;
    assert_eq!(client(&server, &["audit", &job, "--run", &run_id]).status.code(), Some(1));
    assert_eq!(client(&server, &["audit", &job]).status.code(), Some(2), "there is no run to audit");
    assert!(client(&server, &["delete", &job]).status.success());
}

/// A way to the server on which the first answer to every POST is lost, after the server has done what it was asked.
async fn lossy_way(server: &str) -> String {
    let (server, lost) = (server.to_owned(), std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0)));
    let http = conveyor_outbound::client_builder().no_proxy().build().unwrap();
    let pass = async move |request: axum::extract::Request| {
        let (head, body) = request.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let is_post = head.method == axum::http::Method::POST;
        let url = format!("{server}{}", head.uri);
        let mut headers = head.headers;
        headers.remove("host");
        let answer = http.request(head.method, url).headers(headers).body(body).send().await.unwrap();
        if is_post && lost.fetch_add(1, std::sync::atomic::Ordering::SeqCst).is_multiple_of(2) {
            assert!(answer.status().is_success(), "{answer:?}");
            return (axum::http::StatusCode::GATEWAY_TIMEOUT, axum::body::Bytes::new());
        }
        (answer.status(), answer.bytes().await.unwrap())
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = axum::Router::new().fallback(pass);
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_asked_for_again_and_nothing_is_done_twice() {
    let dir = TempDir::new().unwrap();
    let server = demo(dir.path());
    let way = lossy_way(&server.url).await;
    let call = async |args: &[&str]| {
        let mut command = conveyor();
        command.args(args).env("CONVEYOR_SERVER", &way).env("CONVEYOR_API_KEY", KEY);
        tokio::task::spawn_blocking(|| json(&run(command))).await.unwrap()
    };
    let submitted = call(&["submit", "https://example.com/a", "--json"]).await;
    let job = submitted["job_id"].as_str().unwrap();
    let jobs = support::Client::new(&server).get("/v1/jobs").await.1;
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 1, "{jobs}");
    support::Client::new(&server).wait_for(job, &["completed"]).await;
    let rerun = call(&["rerun", job, "--json"]).await;
    assert_eq!(rerun["latest_run"]["run_sequence"], 2, "{rerun}");
    let runs = support::Client::new(&server).get(&format!("/v1/jobs/{job}/runs")).await.1;
    assert_eq!(runs["runs"].as_array().unwrap().len(), 2, "{runs}");
}
