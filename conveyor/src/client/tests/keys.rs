//! Keys and quotas, as a server answers them.

use super::{QUIET, T, serve};
use crate::client::args::ClientCommand;
use crate::client::dispatch;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use clap::Parser;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

const C: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAC";
const OPERATOR_KEY: &str = "a-key-of-an-operator";

fn parse(words: &[&str]) -> Result<ClientCommand, clap::Error> {
    let cli = super::Cli::try_parse_from(std::iter::once(&"conveyor").chain(words))?;
    Ok(cli.command)
}

async fn operate(server: &str, words: &[&str]) -> bool {
    let flags =
        ["--server", server, "--operator-key", OPERATOR_KEY, "--data-dir", "no-such-directory", "--json"];
    dispatch(parse(&[words, &flags].concat()).unwrap(), QUIET).await.is_ok()
}

type Asked = Arc<Mutex<Vec<Value>>>;

fn key(id: &str) -> Value {
    json!({"key_id": id, "name": "n", "kind": "caller", "caller": C, "hint": "abcd", "created_at": T})
}

fn caller() -> Value {
    let usage = json!({"active_jobs": 0, "scheduled_jobs": 0, "queued_tasks": 0});
    json!({"caller": C, "quotas": {}, "usage": usage, "more": false})
}

async fn server(asked: &Asked) -> String {
    let keep = |State(asked): State<Asked>, headers: HeaderMap, Json(body): Json<Value>| async move {
        assert_eq!(headers["x-api-key"], OPERATOR_KEY);
        asked.lock().unwrap().push(body);
        (StatusCode::CREATED, Json(key(C)))
    };
    let list = || async { Json(json!({"keys": [key(C), key(C)]})) };
    let revoke = |State(asked): State<Asked>, Path(id): Path<String>| async move {
        asked.lock().unwrap().push(json!({ "revoke": id }));
        StatusCode::NO_CONTENT
    };
    let change = |State(asked): State<Asked>, Json(body): Json<Value>| async move {
        asked.lock().unwrap().push(body);
        Json(caller())
    };
    let router = Router::new()
        .route("/v1/admin/keys", post(keep).get(list))
        .route("/v1/admin/keys/{key}", delete(revoke))
        .route("/v1/admin/callers/{caller}", get(|| async { Json(caller()) }).patch(change));
    serve(router.with_state(asked.clone())).await
}

#[tokio::test]
async fn what_is_given_is_what_is_asked_for() {
    let asked = Asked::default();
    let server = server(&asked).await;
    let words =
        ["keys", "create", "billing", "--caller", C, "--active-jobs", "3", "--queued-tasks", "default"];
    assert!(operate(&server, &words).await);
    assert!(operate(&server, &["keys", "create", "on call", "--operator"]).await);
    assert!(operate(&server, &["keys", "list"]).await);
    assert!(operate(&server, &["keys", "revoke", "K"]).await);
    assert!(operate(&server, &["keys", "quotas", "C"]).await);
    assert!(operate(&server, &["keys", "quotas", "C", "--scheduled-jobs", "0"]).await);
    let quotas = json!({"active_jobs": 3, "queued_tasks": null});
    let expected = [
        json!({"name": "billing", "caller": C, "quotas": quotas}),
        json!({"name": "on call", "operator": true}),
        json!({"revoke": "K"}),
        json!({"scheduled_jobs": 0}),
    ];
    assert_eq!(*asked.lock().unwrap(), expected);
}

#[test]
fn an_operator_key_is_no_callers() {
    for rest in [["--caller", "C"], ["--active-jobs", "1"], ["--queued-tasks", "1"]] {
        let words = [&["keys", "create", "a", "--operator"], &rest[..]].concat();
        assert!(parse(&words).is_err(), "{rest:?}");
    }
    for bad in ["-1", "10001", "many"] {
        assert!(parse(&["keys", "quotas", "C", "--active-jobs", bad]).is_err(), "{bad}");
    }
}

#[tokio::test]
async fn who_asks_too_fast_asks_again_and_a_quota_is_final() {
    let answers = Arc::new(Mutex::new(vec!["quota_exceeded", "", "rate_limited"]));
    let seen = answers.clone();
    let answer = move || {
        let code = seen.lock().unwrap().pop().unwrap();
        async move {
            match code {
                "" => Json(caller()).into_response(),
                code => {
                    let problem = json!({"type": "t", "title": "t", "status": 429, "code": code});
                    (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "1")], Json(problem)).into_response()
                }
            }
        }
    };
    let server = serve(Router::new().route("/v1/admin/callers/{caller}", get(answer))).await;
    assert!(operate(&server, &["keys", "quotas", "C"]).await);
    assert!(!operate(&server, &["keys", "quotas", "C"]).await);
    assert!(answers.lock().unwrap().is_empty());
}
