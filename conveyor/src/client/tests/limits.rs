//! Limits, leases, and runs that are paused.

use super::{Cli, JOB, KEY, RUN, T, command, job, run, run_of, serve, submitted};
use crate::client::{ExitCode, connect, limits};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch, post};
use axum::{Json, Router};
use clap::Parser;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

fn limits_of(reason: &str) -> Value {
    json!({"job_id": JOB, "run_id": RUN, "max_inflight": 5, "in_flight": 2, "queue": {"visible": 1, "hidden": 2},
           "holders": [{"worker": RUN, "permits": 2, "expires_at": T}], "domains": [],
           "waiting": {"reason": reason, "detail": "So it is."}})
}

/// A job with limits, and what was sent to change them.
#[derive(Clone, Default)]
struct Limited {
    present: Value,
    sent: Arc<Mutex<Vec<Value>>>,
}

impl Limited {
    async fn serve(&self) -> String {
        let show = |State(limited): State<Limited>| async move { Json(limited.present) };
        let change = |State(limited): State<Limited>, Json(body): Json<Value>| async move {
            let mut sent = limited.sent.lock().unwrap();
            sent.push(body);
            // The first answer is lost on the way: it can be sent again.
            match sent.len() {
                1 => StatusCode::SERVICE_UNAVAILABLE.into_response(),
                _ => Json(job("running")).into_response(),
            }
        };
        let router = Router::new()
            .route("/v1/jobs/{job}", get(show).merge(patch(change)))
            .route("/v1/jobs/{job}/limits", get(|| async { Json(limits_of("capped")) }))
            .with_state(self.clone());
        serve(router).await
    }
}

#[tokio::test]
async fn limits_are_shown_and_only_changed_on_request() {
    let limited = Limited { present: job("running"), ..Limited::default() };
    let server = limited.serve().await;
    assert_eq!(run(&server, &["limits", "J"]).await.unwrap(), ExitCode::SUCCESS);
    assert!(limited.sent.lock().unwrap().is_empty());
    let words = ["limits", "J", "--max-inflight", "7", "--rate", "2.5/s", "--burst", "9"];
    assert_eq!(run(&server, &words).await.unwrap(), ExitCode::SUCCESS);
    let expected = json!({"max_inflight": 7, "rate_limit": {"per_second": 2.5, "burst": 9}});
    assert_eq!(*limited.sent.lock().unwrap(), [expected.clone(), expected]);
}

#[tokio::test]
async fn a_part_of_a_limit_leaves_the_rest_of_it() {
    let mut present = job("running");
    present["rate_limit"] = json!({"per_second": 4.0, "burst": 4});
    present["retry"] = json!({"base_ms": 50, "attempts_max": 9});
    let limited = Limited { present, ..Limited::default() };
    let server = limited.serve().await;
    run(&server, &["limits", "J", "--burst", "8", "--attempts-max", "2"]).await.unwrap();
    let expected =
        json!({"rate_limit": {"per_second": 4.0, "burst": 8}, "retry": {"base_ms": 50, "attempts_max": 2}});
    assert_eq!(limited.sent.lock().unwrap().pop(), Some(expected));
    run(&server, &["limits", "J", "--no-rate"]).await.unwrap();
    assert_eq!(limited.sent.lock().unwrap().pop(), Some(json!({"rate_limit": null})));
}

#[tokio::test]
async fn a_burst_of_nothing_is_a_mistake() {
    let limited = Limited { present: job("running"), ..Limited::default() };
    let server = limited.serve().await;
    let refused = run(&server, &["limits", "J", "--burst", "8", "--max-inflight", "3"]).await.unwrap_err();
    assert!(refused.line().contains("(usage)") && refused.line().contains("--rate"), "{}", refused.line());
    assert!(limited.sent.lock().unwrap().is_empty(), "nothing is changed by half");
    for words in [["--rate", "0"], ["--rate", "fast"], ["--burst", "0"], ["--max-inflight", "10001"]] {
        assert!(Cli::try_parse_from(["conveyor", "limits", "J"].iter().chain(&words)).is_err(), "{words:?}");
    }
    assert!(Cli::try_parse_from(["conveyor", "limits", "J", "--no-rate", "--rate", "1"]).is_err());
    assert!(Cli::try_parse_from(["conveyor", "submit", "u", "--burst", "1"]).is_err());
}

#[tokio::test]
async fn limits_are_watched_until_the_run_has_ended() {
    let looks = Arc::new(Mutex::new(vec!["ended", "paused"]));
    let left = Arc::clone(&looks);
    let show = get(move || async move { Json(limits_of(left.lock().unwrap().pop().unwrap())) });
    let server = serve(Router::new().route("/v1/jobs/{job}/limits", show)).await;
    assert_eq!(run(&server, &["limits", "J", "--watch"]).await.unwrap(), ExitCode::SUCCESS);
    assert!(looks.lock().unwrap().is_empty());
}

#[tokio::test]
async fn why_a_job_waits_is_told_if_it_is_known() {
    let show = get(|Path(job): Path<String>| async move {
        match job.as_str() {
            "new" => StatusCode::NOT_FOUND.into_response(),
            "odd" => Json(json!({"waiting": "for nothing"})).into_response(),
            reason => Json(limits_of(reason)).into_response(),
        }
    });
    let server = serve(Router::new().route("/v1/jobs/{job}/limits", show)).await;
    let api = connect(command(&server, &["status", "J"]).connection()).unwrap();
    assert_eq!(limits::why_waiting(&api, "capped").await.as_deref(), Some("capped: So it is."));
    for silent in ["working", "new", "odd"] {
        assert_eq!(limits::why_waiting(&api, silent).await, None, "{silent}");
    }
}

#[tokio::test]
async fn leases_are_of_all_jobs_or_of_one() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let list = get(move |Query(query): Query<HashMap<String, String>>| async move {
        seen.lock().unwrap().push(query.get("cursor").cloned());
        let next = (!query.contains_key("cursor")).then_some("more");
        Json(json!({"leases": [], "next_cursor": next}))
    });
    let one = get(|| async { Json(limits_of("capped")) });
    let router = Router::new().route("/v1/leases", list).route("/v1/jobs/J/limits", one);
    let server = serve(router).await;
    assert_eq!(run(&server, &["leases"]).await.unwrap(), ExitCode::SUCCESS);
    assert_eq!(*asked.lock().unwrap(), [None, Some("more".to_owned())], "an empty page is not the end");
    assert_eq!(run(&server, &["leases", "J"]).await.unwrap(), ExitCode::SUCCESS);
    assert!(run(&server, &["leases", "K"]).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn pause_and_resume_can_be_sent_again() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let act = post(move |Path((_, verb)): Path<(String, String)>| async move {
        let mut log = log.lock().unwrap();
        log.push(verb);
        let answer: Response = match log.len() % 2 {
            1 => StatusCode::SERVICE_UNAVAILABLE.into_response(),
            _ => Json(job("running")["latest_run"].clone()).into_response(),
        };
        answer
    });
    let server = serve(Router::new().route("/v1/jobs/{job}/{verb}", act)).await;
    for verb in ["pause", "resume"] {
        assert_eq!(run(&server, &[verb, "J"]).await.unwrap(), ExitCode::SUCCESS);
    }
    assert_eq!(*seen.lock().unwrap(), ["pause", "pause", "resume", "resume"]);
}

#[tokio::test]
async fn a_submit_carries_its_limits() {
    let sent = Arc::new(Mutex::new(Value::Null));
    let here = Arc::clone(&sent);
    let submit = post(move |Json(body): Json<Value>| async move {
        *here.lock().unwrap() = body;
        Json(submitted(run_of("running")))
    });
    let server = serve(Router::new().route("/v1/jobs", submit)).await;
    let limits = [
        ["--rate", "50"],
        ["--attempts-max", "2"],
        ["--domain-limit", "a.example=5/s;*=inflight=1"],
        ["--result-ttl-days", "3"],
    ]
    .concat();
    let words: Vec<&str> = ["submit", "https://a.example"].into_iter().chain(limits).collect();
    run(&server, &words).await.unwrap();
    let body = sent.lock().unwrap().clone();
    assert_eq!(body["rate_limit"], json!({"per_second": 50.0}));
    assert_eq!(body["retry"], json!({"attempts_max": 2}));
    assert_eq!(body["result_ttl_days"], 3);
    let domains = json!({"a.example": {"per_second": 5.0, "burst": 5}, "*": {"max_inflight": 1}});
    assert_eq!(body["domain_limits"], domains);
    let twice = ["submit", "https://a.example", "--domain-limit", "a.example=5/s;a.example=6/s"];
    assert!(run(&server, &twice).await.unwrap_err().line().contains("given twice"));
    let wrong = ["conveyor", "submit", "u", "--api-key", KEY, "--domain-limit", "a.example=5"];
    let Err(said) = Cli::try_parse_from(wrong) else { panic!("taken") };
    let said = said.to_string();
    assert!(said.contains("--domain-limit") && said.contains("a.example=5"), "{said}");
}
