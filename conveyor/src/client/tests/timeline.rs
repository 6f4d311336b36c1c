//! Events, rejected rows, and a list that is being read.

use super::{RUN, T, ingest, job, run, serve};
use crate::client::ExitCode;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

fn event(id: u64, kind: &str) -> Value {
    json!({"id": id, "type": kind, "at": T, "run_id": RUN, "data": {}})
}

fn said(id: u64, kind: &str) -> String {
    format!("id: {id}\nevent: {kind}\ndata: {}\n\n", event(id, kind))
}

/// A stream that breaks off: in its middle, between events, not at all; and the header of each connection.
#[derive(Clone, Default)]
struct Stream {
    connections: Arc<Mutex<Vec<String>>>,
}

async fn events(State(stream): State<Stream>, headers: HeaderMap) -> Response {
    if headers.get("accept").is_none_or(|accept| accept != "text/event-stream") {
        let events =
            [event(1, "job.submitted"), event(2, "job.closed"), event(3, "run.completed"), event(4, "after")];
        return Json(json!({ "events": events })).into_response();
    }
    let mut connections = stream.connections.lock().unwrap();
    connections.push(headers["last-event-id"].to_str().unwrap().to_owned());
    match connections.len() {
        1 => format!("retry: 1000\n\n{}id: 2\nda", said(1, "job.submitted")).into_response(),
        2 => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        3 => format!("{}{}", said(1, "job.submitted"), said(2, "job.closed")).into_response(),
        _ => said(3, "run.completed").into_response(),
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_taken_up_behind_the_last_event() {
    let stream = Stream::default();
    let status = stream.clone();
    // Only the last connection sees the end of the run.
    let show = get(move || async move {
        match status.connections.lock().unwrap().len() {
            3 => StatusCode::SERVICE_UNAVAILABLE.into_response(),
            4 => Json(job("completed")).into_response(),
            _ => Json(job("running")).into_response(),
        }
    });
    let router = Router::new()
        .route("/v1/jobs/{job}/events", get(events))
        .with_state(stream.clone())
        .route("/v1/jobs/{job}", show);
    let server = serve(router).await;
    assert_eq!(run(&server, &["events", "J", "--follow"]).await.unwrap(), ExitCode::SUCCESS);
    assert_eq!(*stream.connections.lock().unwrap(), ["0", "1", "1", "2"]);
    assert_eq!(run(&server, &["events", "J"]).await.unwrap(), ExitCode::SUCCESS);
}

#[tokio::test]
async fn events_of_a_job_that_is_not_there_are_an_error_at_once() {
    let server = serve(Router::new()).await;
    for words in [&["events", "J"][..], &["events", "J", "--follow"]] {
        assert!(run(&server, words).await.unwrap_err().is_not_found());
    }
}

#[tokio::test]
async fn rejected_rows_are_saved_under_their_name_once_they_are_whole() {
    let rejected = get(
        |Path((_, run)): Path<(String, String)>, Query(query): Query<HashMap<String, String>>| async move {
            match run.as_str() {
                RUN => format!("a report in {}\n", query["format"]).into_response(),
                _ => StatusCode::NOT_FOUND.into_response(),
            }
        },
    );
    let router = Router::new()
        .route("/v1/jobs/{job}", get(|| async { Json(job("completed")) }))
        .route("/v1/jobs/{job}/runs/{run}/ingest/rejected", rejected);
    let server = serve(router).await;
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("rejected.csv");
    let name = out.to_str().unwrap();
    run(&server, &["rejected", "J", "--format", "csv", "--out", name]).await.unwrap();
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "a report in csv\n");
    run(&server, &["rejected", "J", "--run", "without-a-list", "--out", name]).await.unwrap();
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "", "nothing can have been rejected");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    let usage = run(&server, &["rejected", "J", "--format", "csv"]).await.unwrap_err();
    assert!(usage.line().contains("(usage)"));
}

#[tokio::test]
async fn a_list_that_is_being_read_is_watched_to_the_end_of_its_run() {
    let polls = Arc::new(AtomicU32::new(0));
    let show = get(move || async move {
        let mut job = job(if polls.fetch_add(1, Ordering::SeqCst) < 2 { "running" } else { "completed" });
        job["latest_run"]["ingest_status"] = json!("pending");
        Json(job)
    });
    let asked = Arc::new(AtomicU32::new(0));
    let asked_here = Arc::clone(&asked);
    let show_ingest = get(move || async move {
        asked_here.fetch_add(1, Ordering::SeqCst);
        Json(ingest(
            json!({"state": "reading", "rows_accepted": 5, "rows_rejected": 1, "last_error": "busy"}),
        ))
    });
    let router =
        Router::new().route("/v1/jobs/{job}", show).route("/v1/jobs/{job}/runs/{run}/ingest", show_ingest);
    let server = serve(router).await;
    assert_eq!(run(&server, &["status", "J", "--watch"]).await.unwrap(), ExitCode::SUCCESS);
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn uploads_are_listed_in_pages_and_aborted() {
    let list = get(|Query(query): Query<HashMap<String, String>>| async move {
        let next = (!query.contains_key("cursor")).then_some("more");
        Json(
            json!({"job_inputs": [{"file_input_id": RUN, "type": "csv", "status": "waiting", "created_at": T, "expires_at": T}],
                "next_cursor": next}),
        )
    });
    let abort = axum::routing::delete(|| async { StatusCode::NO_CONTENT });
    let router = Router::new().route("/v1/job_inputs", list).route("/v1/job_inputs/U", abort);
    let server = serve(router).await;
    run(&server, &["uploads"]).await.unwrap();
    run(&server, &["uploads", "--abort", "U"]).await.unwrap();
    assert!(run(&server, &["uploads", "--abort", "V"]).await.unwrap_err().is_not_found());
}
