//! Reconciliations and dead letters, as a server answers them.

use super::{JOB, QUIET, T, finding, part, serve};
use crate::client::args::ClientCommand;
use crate::client::failure::Failure;
use crate::client::{ExitCode, dispatch};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use clap::Parser;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

const GONE: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAG";
const HERE: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAH";
const OPERATOR_KEY: &str = "a-key-of-an-operator";

async fn operate(server: &str, words: &[&str]) -> Result<ExitCode, Failure> {
    let flags =
        ["--server", server, "--operator-key", OPERATOR_KEY, "--data-dir", "no-such-directory", "--json"];
    dispatch(parse(words.iter().chain(&flags)).unwrap(), QUIET).await
}

fn parse<'a>(words: impl Iterator<Item = &'a &'a str>) -> Result<ClientCommand, clap::Error> {
    let cli = super::Cli::try_parse_from(std::iter::once("conveyor").chain(words.copied()))?;
    Ok(cli.command)
}

/// Gives answers in turn, and keeps what was asked.
#[derive(Clone, Default)]
struct InTurn {
    answers: Arc<Mutex<Vec<Value>>>,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl InTurn {
    fn new(answers: &[Value]) -> InTurn {
        let answers = answers.iter().rev().cloned().collect();
        InTurn { answers: Arc::new(Mutex::new(answers)), ..InTurn::default() }
    }

    async fn serve(&self) -> String {
        let answer = |State(turn): State<InTurn>, headers: HeaderMap, Json(body): Json<Value>| async move {
            assert_eq!(headers["x-api-key"], OPERATOR_KEY);
            turn.asked.lock().unwrap().push(body);
            Json(turn.answers.lock().unwrap().pop().unwrap())
        };
        let router = Router::new()
            .route("/v1/admin/reconcile", post(answer))
            .route("/v1/admin/dead_letters/redrive", post(answer));
        serve(router.with_state(self.clone())).await
    }

    fn asked(&self) -> Vec<Value> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    fn is_used_up(&self) -> bool {
        self.answers.lock().unwrap().is_empty()
    }
}

#[tokio::test]
async fn a_reconciliation_goes_on_until_it_is_whole() {
    let damage = json!([finding("damage", "fixed")]);
    let answers = [part(damage, json!([]), Some("N1")), part(json!([]), json!([]), None)];
    let server = InTurn::new(&answers);
    let ended = operate(&server.serve().await, &["reconcile", "--job", JOB]).await.unwrap();
    assert_eq!(ended, ExitCode::from(3));
    let whole = json!({"dry_run": false, "job_id": JOB});
    assert_eq!(server.asked(), [whole, json!({"dry_run": false, "job_id": JOB, "from": "N1"})]);
}

#[tokio::test]
async fn what_cannot_be_told_is_looked_at_again_unless_nobody_waits() {
    let unsure = json!([{"subject": {"type": "run", "id": "R"}, "until": T, "in_ms": 1}]);
    let answers = [part(json!([]), unsure, None), part(json!([]), json!([]), None)];
    let server = InTurn::new(&answers);
    assert_eq!(operate(&server.serve().await, &["reconcile"]).await.unwrap(), ExitCode::SUCCESS);
    assert!(server.is_used_up());
    let server = InTurn::new(&answers);
    let ended = operate(&server.serve().await, &["reconcile", "--no-wait"]).await.unwrap();
    assert_eq!((ended, server.is_used_up()), (ExitCode::FAILURE, false));
}

#[tokio::test]
async fn the_status_says_what_is_left() {
    for (kind, outcome, code) in [
        ("upkeep", "fixed", 0),
        ("upkeep", "failed", 0),
        ("damage", "fixed", 3),
        ("damage", "gone", 3),
        ("damage", "seen", 1),
        ("damage", "needs_operator", 1),
        ("damage", "failed", 1),
    ] {
        let server = InTurn::new(&[part(json!([finding(kind, outcome)]), json!([]), None)]);
        let ended = operate(&server.serve().await, &["reconcile"]).await.unwrap();
        assert_eq!(ended, ExitCode::from(code), "{kind} {outcome}");
    }
}

#[tokio::test]
async fn many_letters_are_sent_again_page_by_page() {
    let page = |outcome: &str, cursor: Option<&str>| {
        let mut page =
            json!({"dead_letters": [{"letter_id": HERE, "outcome": outcome}], "more": cursor.is_some()});
        if let Some(cursor) = cursor {
            page["next_cursor"] = json!(cursor);
        }
        page
    };
    let server = InTurn::new(&[page("sent", Some("C1")), page("acknowledged", None)]);
    let words = ["dlq", "redrive", "--error", "disk", "--rate", "1000"];
    assert_eq!(operate(&server.serve().await, &words).await.unwrap(), ExitCode::SUCCESS);
    let first = json!({"error": "disk", "per_second": 1000.0});
    let mut second = first.clone();
    second["cursor"] = json!("C1");
    assert_eq!(server.asked(), [first, second]);
    let server = InTurn::new(&[page("redrive_limit", None)]);
    let ended = operate(&server.serve().await, &["dlq", "redrive", "--all"]).await.unwrap();
    assert_eq!((ended, server.asked()), (ExitCode::FAILURE, vec![json!({"all": true})]));
}

#[tokio::test]
async fn one_letter_that_cannot_be_purged_does_not_keep_the_others() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let purge = delete(move |Path(letter): Path<String>| async move {
        log.lock().unwrap().push(letter.clone());
        let answer: Response = match letter.as_str() {
            GONE => {
                let problem = json!({"type": "t", "title": "Not found", "status": 404, "code": "not_found"});
                (StatusCode::NOT_FOUND, Json(problem)).into_response()
            }
            _ => Json(json!({"letter_id": letter, "outcome": "purged"})).into_response(),
        };
        answer
    });
    let page = get(|| async {
        let letter = |id: &str| {
            json!({"letter_id": id, "body": "b", "first_at": T, "last_at": T, "tries": 1, "redrives": 0,
                   "next_sweep": "keep"})
        };
        Json(json!({"dead_letters": [letter(GONE), letter(HERE)]}))
    });
    let router =
        Router::new().route("/v1/admin/dead_letters", page).route("/v1/admin/dead_letters/{letter}", purge);
    let server = serve(router).await;
    assert_eq!(operate(&server, &["dlq", "purge", GONE, HERE]).await.unwrap(), ExitCode::FAILURE);
    assert_eq!(operate(&server, &["dlq", "purge", "--all"]).await.unwrap(), ExitCode::FAILURE);
    assert_eq!(*seen.lock().unwrap(), [GONE, HERE, GONE, HERE]);
    assert_eq!(operate(&server, &["dlq", "purge", HERE]).await.unwrap(), ExitCode::SUCCESS);
}

#[test]
fn everything_is_never_meant_by_nothing() {
    for verb in ["redrive", "purge"] {
        for words in
            [vec!["dlq", verb], vec!["dlq", verb, "L", "--all"], vec!["dlq", verb, "--all", "--job", "J"]]
        {
            assert!(parse(words.iter()).is_err(), "{words:?}");
        }
        assert!(parse(["dlq", verb, "--job", "J", "--error", "disk"].iter()).is_ok());
        assert!(parse(["dlq", verb, "--job", "J", "--error", ""].iter()).is_err());
    }
    assert!(parse(["dlq", "list", "--error", ""].iter()).is_err());
}
