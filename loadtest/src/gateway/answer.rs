//! One call of the gateway, from the target URL to the answer.

use super::Shared;
use super::behaviour::{Behaviour, Fault, behaviour_of};
use super::stats::Seen;
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

#[derive(Debug, Deserialize)]
pub struct Parameters {
    url: Option<String>,
}

/// What the average is of.
#[derive(Debug, Deserialize)]
pub struct Span {
    from_us: Option<u64>,
    to_us: Option<u64>,
}

pub async fn stats(State(shared): State<Arc<Shared>>, Query(span): Query<Span>) -> Json<Seen> {
    Json(shared.stats.seen(span.from_us, span.to_us))
}

pub async fn log(State(shared): State<Arc<Shared>>) -> Response {
    match shared.stats.log() {
        Some(log) => Json(log).into_response(),
        None => problem(404, "not_recording", "This gateway was started without --record"),
    }
}

pub async fn reset(State(shared): State<Arc<Shared>>) -> StatusCode {
    shared.stats.reset();
    StatusCode::NO_CONTENT
}

pub async fn call(
    State(shared): State<Arc<Shared>>,
    method: Method,
    Query(parameters): Query<Parameters>,
    // Read to its end, so that the connection serves the next call.
    _body: Bytes,
) -> Response {
    if method != Method::GET && method != Method::POST {
        return problem(405, "method_not_allowed", "A gateway takes GET and POST");
    }
    let Some(target) = parameters.url else {
        return problem(400, "missing_url", "The url parameter is missing");
    };
    let Some(behaviour) = behaviour_of(&target) else {
        return problem(400, "invalid_url", "The url is not a URL");
    };
    let call = shared.stats.begin(&target);
    let (latency, unlucky) = shared.draw();
    if !latency.is_zero() {
        tokio::time::sleep(latency).await;
    }
    let mut answer = if unlucky {
        problem(shared.settings.fail_status, "unlucky", "This call failed by chance")
    } else {
        act(&shared, behaviour, &target, call.ordinal).await
    };
    if let Some(cost) = shared.settings.cost.as_deref().and_then(|cost| HeaderValue::from_str(cost).ok()) {
        answer.headers_mut().insert("x-request-cost", cost);
    }
    if !answer.status().is_success() {
        call.fail();
    }
    answer
}

async fn act(shared: &Shared, behaviour: Behaviour, target: &str, ordinal: u32) -> Response {
    let ordinary_page = || html(page(target, shared.settings.body_bytes));
    match behaviour {
        Behaviour::Page => ordinary_page(),
        Behaviour::Status { code, retry_after } => {
            let mut answer = match code {
                200..=299 => (status(code), ordinary_page()).into_response(),
                _ => problem(code, "scripted", "The target URL asked for this status"),
            };
            if let Some(seconds) = retry_after {
                answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            }
            answer
        }
        Behaviour::Flaky { failures } if ordinal <= failures => problem(503, "flaky", "Not yet"),
        Behaviour::Flaky { .. } => ordinary_page(),
        Behaviour::Slow(delay) => {
            tokio::time::sleep(delay).await;
            ordinary_page()
        }
        Behaviour::Size(bytes) => html(page(target, bytes)),
        Behaviour::Account(Fault::Credits) => problem(402, "insufficient_credits", "There is no credit left"),
        Behaviour::Account(Fault::Cap) => problem(402, "api_key_cap_reached", "The key has reached its cap"),
        Behaviour::Account(Fault::Subscription) => {
            problem(401, "subscription_inactive", "The subscription has ended")
        }
        Behaviour::Hang => std::future::pending().await,
    }
}

/// Text of exactly this many bytes that begins with its target, so that a body can be told from another's.
fn page(target: &str, bytes: usize) -> Bytes {
    let filler = b"All work and no play makes a dull gateway.\n";
    target.bytes().chain([b'\n']).chain(filler.iter().copied().cycle()).take(bytes).collect()
}

fn html(body: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], Body::from(body)).into_response()
}

fn problem(code: u16, name: &str, title: &str) -> Response {
    let body = json!({
        "type": format!("urn:loadtest:error:{name}"), "title": title, "status": code, "code": name,
        "detail": format!("{title}."),
    });
    (status(code), [(header::CONTENT_TYPE, "application/problem+json")], body.to_string()).into_response()
}

/// The codes here are 200 to 599, which are all valid.
fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
