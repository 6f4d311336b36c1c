//! The client against a server that answers what a test wants.

mod keys;
mod limits;
mod repair;
mod staged;
mod timeline;

use super::args::ClientCommand;
use super::failure::Failure;
use super::{ExitCode, Output, dispatch};
use axum::Router;
use axum::extract::Query;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{any, get};
use clap::Parser;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

const KEY: &str = "a-key-that-nobody-should-see";
const QUIET: Output = Output { json: true };

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: ClientCommand,
}

fn command(server: &str, words: &[&str]) -> ClientCommand {
    let flags = ["--server", server, "--api-key", KEY, "--data-dir", "no-such-directory", "--json"];
    Cli::try_parse_from(["conveyor"].iter().chain(words).chain(&flags)).unwrap().command
}

async fn serve(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

async fn run(server: &str, words: &[&str]) -> Result<ExitCode, Failure> {
    dispatch(command(server, words), QUIET).await
}

pub const JOB: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
pub const RUN: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAW";
pub const T: &str = "2026-11-16T05:00:15.912Z";

/// A document with other fields in the place of some.
fn with(mut document: Value, fields: Value) -> Value {
    for (name, value) in fields.as_object().unwrap() {
        document[name] = value.clone();
    }
    document
}

pub fn run_of(status: &str) -> Value {
    json!({"run_id": RUN, "job_id": JOB, "run_sequence": 1, "status": status, "trigger": "submit",
           "last_batch_received": true, "created_at": T, "updated_at": T,
           "stats": {"total": 2, "completed": 2, "successful": 1, "failed": 1}})
}

pub fn job(status: &str) -> Value {
    json!({"job_id": JOB, "type": "regular", "status": "closed", "format": "html", "max_inflight": 5,
           "result_ttl_days": 14, "created_at": T, "updated_at": T, "latest_run": run_of(status)})
}

/// The answer to a submit.
fn submitted(latest_run: Value) -> Value {
    json!({"job_id": JOB, "status": "closed", "accepted_tasks": 0, "latest_run": latest_run})
}

pub fn ingest(fields: Value) -> Value {
    let ingest = json!({"run_id": RUN, "state": "waiting", "rows_read": 0, "rows_accepted": 0, "rows_rejected": 0,
                        "chunks": 0, "bytes_read": 0, "updated_at": T, "attempts_failed": 0});
    with(ingest, fields)
}

pub fn audit(fields: Value) -> Value {
    let audit = json!({"at": T, "job_id": JOB, "run": run_of("completed"), "agrees": true, "total": 1,
                       "counters": {"successful": 1, "failed": 0}, "disagreements": [], "findings": [], "unsure": []});
    with(audit, fields)
}

pub fn finding(kind: &str, outcome: &str) -> Value {
    json!({"repair": "r", "kind": kind, "subject": {"type": "run", "id": "R"}, "why": "w", "remedy": "m", "fixable": true,
           "outcome": outcome, "new": 1})
}

/// A part of a reconciliation.
pub fn part(findings: Value, unsure: Value, next: Option<&str>) -> Value {
    let mut part = json!({"at": T, "dry_run": false, "findings": findings, "unsure": unsure, "errors": []});
    if let Some(next) = next {
        part["next"] = json!(next);
    }
    part
}

/// Unavailable for the first `times` requests.
fn flaky(times: u32, seen: &Arc<AtomicU32>) -> Router {
    let seen = Arc::clone(seen);
    Router::new().fallback(any(move || async move {
        if seen.fetch_add(1, Ordering::SeqCst) < times {
            return (StatusCode::SERVICE_UNAVAILABLE, "busy").into_response();
        }
        axum::Json(job("completed")).into_response()
    }))
}

#[tokio::test]
async fn a_get_is_repeated_and_a_stop_is_not() {
    let seen = Arc::new(AtomicU32::new(0));
    let server = serve(flaky(3, &seen)).await;
    assert_eq!(run(&server, &["status", "J"]).await.unwrap(), ExitCode::SUCCESS);
    assert_eq!(seen.load(Ordering::SeqCst), 4);

    seen.store(0, Ordering::SeqCst);
    let server = serve(flaky(9, &seen)).await;
    let refused = run(&server, &["stop", "J"]).await.unwrap_err();
    assert_eq!(refused.line(), "Service Unavailable: busy (http_503)");
    assert_eq!(seen.load(Ordering::SeqCst), 1);

    let refused = run(&server, &["status", "J"]).await.unwrap_err();
    assert_eq!(refused.line(), "Service Unavailable: busy (http_503)");
    assert_eq!(seen.load(Ordering::SeqCst), 5, "four more, and no end of it");
}

/// The server knows by it that it is the same request.
#[tokio::test]
async fn a_submit_is_repeated_under_the_same_key_and_another_has_another() {
    let keys = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&keys);
    let router = Router::new().fallback(any(async move |headers: HeaderMap| {
        let mut seen = seen.lock().unwrap();
        seen.push(headers["idempotency-key"].to_str().unwrap().to_owned());
        match seen.len() % 3 {
            1 => (StatusCode::SERVICE_UNAVAILABLE, "busy").into_response(),
            // What was sent before is still being carried out.
            2 => {
                let problem =
                    json!({"type": "urn:x", "code": "idempotency_key_conflict", "status": 409, "title": "T"});
                (StatusCode::CONFLICT, axum::Json(problem)).into_response()
            }
            _ => axum::Json(submitted(run_of("running"))).into_response(),
        }
    }));
    let server = serve(router).await;
    for _ in 0..2 {
        run(&server, &["submit", "https://a.example"]).await.unwrap();
    }
    let keys = keys.lock().unwrap();
    assert_eq!(keys.len(), 6);
    assert!(keys[..3].iter().all(|key| *key == keys[0]) && keys[3..].iter().all(|key| *key == keys[3]));
    assert_ne!(keys[0], keys[3]);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_and_the_key_is_not() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://user:secret@{}", listener.local_addr().unwrap());
    drop(listener);
    let failure = run(&server, &["stop", "J"]).await.unwrap_err();
    let said = format!("{failure:?}");
    assert!(said.contains("server_unreachable") && said.contains("conveyor dev"), "{said}");
    assert!(said.contains("http://127.0.0.1:"), "{said}");
    assert!(!said.contains(KEY) && !said.contains("secret"), "{said}");
    assert!(!format!("{:?}", command(&server, &["status", "J"])).contains(KEY));
}

#[tokio::test]
async fn watching_ends_with_the_run_and_says_how_it_went() {
    for (status, code) in [("completed", 0), ("stopped", 1), ("failed", 1), ("deleted", 1)] {
        let polls = Arc::new(AtomicU32::new(0));
        let router = Router::new().route(
            "/v1/jobs/{job}",
            get(move || async move {
                let over = polls.fetch_add(1, Ordering::SeqCst) >= 2;
                axum::Json(job(if over { status } else { "running" }))
            }),
        );
        let server = serve(router).await;
        let ended = run(&server, &["status", "J", "--watch"]).await.unwrap();
        assert_eq!(ended, ExitCode::from(code), "{status}");
    }
}

#[tokio::test]
async fn a_refused_submit_names_lines() {
    let router = Router::new().fallback(any(|| async {
        let problem = json!({"type": "urn:conveyor:error:invalid_argument", "title": "Bad", "status": 400,
            "code": "invalid_argument", "invalid_tasks": [{"index": 1, "reason": "malformed_url", "value": "x y"}]});
        (StatusCode::BAD_REQUEST, axum::Json(problem))
    }));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("urls.txt");
    std::fs::write(&path, "https://a.example\n\nx y\n").unwrap();
    let path = path.to_str().unwrap();
    let failure = run(&serve(router).await, &["submit", path]).await.unwrap_err();
    assert!(format!("{failure:?}").contains(&format!("{path}:3")), "{failure:?}");
}

#[tokio::test]
async fn a_dry_run_says_whether_a_submit_would_be_taken() {
    for (would_answer, code) in [(201, ExitCode::SUCCESS), (202, ExitCode::SUCCESS), (400, ExitCode::FAILURE)]
    {
        let router = Router::new().fallback(any(move |Query(query): Query<HashMap<String, String>>| async move {
            assert_eq!(query["dry_run"], "true");
            axum::Json(json!({"dry_run": true, "rows": 1, "valid": 1, "invalid": 0, "invalid_tasks": [],
                "duplicates": 0, "domains": {"count": 1, "exact": true, "top": []}, "would_answer": would_answer,
                "estimate": {"seconds": 2.0, "bound_by": "none", "assumes": {"seconds_per_task": 1.0, "basis": "measured",
                    "attempts_per_task": 1, "max_inflight": 1}}}))
        }));
        let server = serve(router).await;
        let said = run(&server, &["submit", "https://a.example", "--dry-run"]).await.unwrap();
        assert_eq!(said, code, "{would_answer}");
    }
}

#[tokio::test]
async fn a_missing_key_is_explained() {
    let router = Router::new().fallback(any(|headers: HeaderMap| async move {
        assert!(!headers.contains_key("x-api-key"));
        let problem = json!({"type": "urn:conveyor:error:unauthenticated", "title": "No key", "status": 401,
            "code": "unauthenticated"});
        (StatusCode::UNAUTHORIZED, axum::Json(problem))
    }));
    let server = serve(router).await;
    let words =
        ["conveyor", "status", "J", "--server", &server, "--api-key", "", "--data-dir", "no-such-directory"];
    let failure = dispatch(Cli::try_parse_from(words).unwrap().command, QUIET).await.unwrap_err();
    assert!(format!("{failure:?}").contains("CONVEYOR_API_KEY"), "{failure:?}");
}

#[tokio::test]
async fn the_key_is_found_in_the_data_directory() {
    let router = Router::new().fallback(any(|headers: HeaderMap| async move {
        assert_eq!(headers["x-api-key"], "from-a-file");
        axum::Json(job("running"))
    }));
    let server = serve(router).await;
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("api-key"), "from-a-file\n").unwrap();
    let data_dir = directory.path().to_str().unwrap();
    let words = ["conveyor", "status", "J", "--server", &server, "--api-key", "", "--data-dir", data_dir];
    dispatch(Cli::try_parse_from(words).unwrap().command, QUIET).await.unwrap();
}

fn task(n: usize, status: &str, url: Option<&str>) -> Value {
    json!({"task_id": format!("{n:032x}"), "run_id": RUN, "status": status, "url": "https://a.example", "type": "html",
           "result_url": url, "created_at": T, "updated_at": T,
           "error": {"type": "t", "title": "Blocked", "status": 403, "code": "blocked"}})
}

/// Three pages: two bodies, then a failure and a body that is gone, then a task that is still worked on.
fn results() -> Router {
    let page = |Query(query): Query<HashMap<String, String>>, headers: HeaderMap| async move {
        assert_eq!(headers["x-api-key"], KEY);
        let (results, next) = match query.get("cursor").map(String::as_str) {
            None => (
                vec![task(0, "successful", Some("/body/0")), task(1, "successful", Some("/body/1"))],
                Some("2"),
            ),
            Some("2") => (vec![task(2, "failed", None), task(3, "successful", Some("/gone"))], Some("4")),
            Some(_) => (vec![task(4, "processing", None)], None),
        };
        axum::Json(json!({"results": results, "next_cursor": next}))
    };
    let body = |headers: HeaderMap, axum::extract::Path(n): axum::extract::Path<String>| async move {
        assert!(!headers.contains_key("x-api-key"), "a signed URL needs no key and may lead anywhere");
        format!("<p>{n}</p>")
    };
    Router::new().route("/v1/jobs/{job}/runs/{run}/results", get(page)).route("/body/{n}", get(body))
}

#[tokio::test]
async fn bodies_are_downloaded_and_failures_listed() {
    let server = serve(results()).await;
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let ended = run(&server, &["results", "J", "--run", "R", "--out", out.to_str().unwrap()]).await.unwrap();
    assert_eq!(ended, ExitCode::FAILURE, "one body is gone");
    let mut names: Vec<String> =
        std::fs::read_dir(&out).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, [format!("{:032x}.html", 0), format!("{:032x}.html", 1), "failed.jsonl".to_owned()]);
    assert_eq!(std::fs::read_to_string(out.join(&names[1])).unwrap(), "<p>1</p>");
    let failed: Value = serde_json::from_slice(&std::fs::read(out.join("failed.jsonl")).unwrap()).unwrap();
    assert_eq!(failed["task_id"], format!("{:032x}", 2));
}

#[tokio::test]
async fn a_task_id_cannot_lead_out_of_the_directory() {
    let router = Router::new().fallback(any(|| async {
        let mut evil = task(0, "successful", Some("/body"));
        evil["task_id"] = json!("../evil");
        axum::Json(json!({"results": [evil]}))
    }));
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let server = serve(router).await;
    assert!(run(&server, &["results", "J", "--out", out.to_str().unwrap()]).await.is_err());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_deep_audit_follows_the_pages_of_bodies_to_the_last() {
    let pages = [
        json!({"read": 2, "bytes": 20, "unverified": 1, "at_fault": [], "more_at_fault": 0, "next_cursor": "c"}),
        json!({"read": 1, "bytes": 10, "unverified": 0, "at_fault": [{"task_id": format!("{:032x}", 0), "fault": "damaged"}],
               "more_at_fault": 0}),
    ];
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let bodies = get(async move |Query(query): Query<HashMap<String, String>>| {
        let mut seen = seen.lock().unwrap();
        seen.push(query.get("cursor").cloned());
        axum::Json(pages[seen.len() - 1].clone())
    });
    let audit = audit(json!({
        "total": 3,
        "rows": {"pending": 0, "processing": 0, "successful": 3, "failed": 0},
        "counters": {"successful": 3, "failed": 0},
    }));
    let router = Router::new()
        .route("/v1/jobs/J/runs/R/audit", get(async move || axum::Json(audit)))
        .route("/v1/jobs/J/runs/R/audit/bodies", bodies);
    let server = serve(router).await;
    let words = ["audit", "J", "--run", "R"];
    assert_eq!(run(&server, &words).await.unwrap(), ExitCode::SUCCESS, "no body is read unless asked for");
    assert_eq!(run(&server, &[&words[..], &["--deep"]].concat()).await.unwrap(), ExitCode::FAILURE);
    assert_eq!(*asked.lock().unwrap(), [None, Some("c".to_owned())]);
}

#[tokio::test]
async fn a_deep_audit_that_fails_or_does_not_move_says_what_it_found() {
    let page = |asked: u32| match asked {
        0 => {
            json!({"read": 1, "bytes": 1, "unverified": 0, "at_fault": [{"task_id": format!("{:032x}", 0), "fault": "missing"}],
                    "more_at_fault": 3, "next_cursor": "0"})
        }
        n => json!({"read": 0, "bytes": 0, "unverified": 0, "at_fault": [], "more_at_fault": 0,
                    "next_cursor": n.to_string()}),
    };
    let audit = audit(json!({
        "rows": {"pending": 0, "processing": 0, "successful": 1, "failed": 0},
        "counters": {"successful": 1, "failed": 0},
    }));
    for (answers, why) in [(u32::MAX, "pages in a row"), (1, "not_found")] {
        let (audit, asked) = (audit.clone(), Arc::new(AtomicU32::new(0)));
        let bodies = get(async move || match asked.fetch_add(1, Ordering::SeqCst) {
            n if n < answers => axum::Json(page(n)).into_response(),
            _ => (
                StatusCode::NOT_FOUND,
                axum::Json(json!({"status": 404, "code": "not_found", "title": "Not found"})),
            )
                .into_response(),
        });
        let router = Router::new()
            .route("/v1/jobs/J/runs/R/audit", get(async move || axum::Json(audit)))
            .route("/v1/jobs/J/runs/R/audit/bodies", bodies);
        let failed = run(&serve(router).await, &["audit", "J", "--run", "R", "--deep"]).await.unwrap_err();
        let said = format!("{failed:?}");
        assert!(said.contains(why) && said.contains("0 (missing), and 3 more"), "{said}");
    }
}
