//! What every answer has, whatever made it: a request id, a body that is a problem if it is an error, a log line and its
//! place in the metrics. Outermost, so that no answer goes round it.

use crate::idempotency::IDEMPOTENCY_REPLAYED;
use crate::problem::{ApiError, Unrendered};
use crate::shares::in_flight;
use crate::state::Shared;
use crate::warnings::{Warnings, add_to};
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use conveyor_domain::{Entropy, Timestamp, limits};
use conveyor_wire as wire;
use futures::FutureExt;
use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use tokio::time::Instant;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

pub(crate) async fn complete(State(state): State<Shared>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = RequestId::of(request.headers(), state.now(), &state.entropy);
    let method = method_label(request.method());
    // The template, never the path: ids would make a new time series each, and the log has no use for them.
    let matched = request.extensions().get::<MatchedPath>();
    let route = matched.map_or("unmatched", MatchedPath::as_str).to_owned();
    let in_flight = in_flight::of(request.extensions());

    let warnings = Warnings::default();
    request.extensions_mut().insert(warnings.clone());
    // Unwind safety: what a panicking handler shares with others is the backend, which survives its callers.
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    let mut response = answer.unwrap_or_else(|panic| ApiError::internal(panic_text(&*panic)).into_response());
    finish(&mut response, &id, method, &route);
    let response = name(warnings.named(), response).await;

    let (status, elapsed) = (response.status().as_u16(), started.elapsed());
    // Anybody can make refusals of every route and method; each would be a time series.
    let is_strange = response.status().is_client_error() && in_flight.is_none_or(|one| one.who().is_none());
    let (of_route, of_method) = if is_strange { ("refused", "any") } else { (&*route, method) };
    let labels =
        [("route", of_route.to_owned()), ("method", of_method.to_owned()), ("status", status.to_string())];
    metrics::counter!("conveyor_http_requests_total", &labels).increment(1);
    metrics::histogram!("conveyor_http_request_seconds", &labels).record(elapsed.as_secs_f64());
    let ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    tracing::info!(method, route, status, ms, request_id = %id, "request");
    response
}

fn finish(response: &mut Response, id: &RequestId, method: &str, route: &str) {
    if let Some(unrendered) = response.extensions_mut().remove::<Unrendered>() {
        render(response, unrendered, id, method, route);
    }
    let headers = response.headers_mut();
    if let Some(value) = id.to_header() {
        headers.insert(X_REQUEST_ID, value);
    }
    // Isolation: a shared cache does not know that X-API-Key decides what a URL answers, and result URLs are secrets.
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

fn render(response: &mut Response, unrendered: Unrendered, id: &RequestId, method: &str, route: &str) {
    let Unrendered { mut problem, cause } = unrendered;
    if let Some(cause) = cause {
        let status = response.status();
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(method, route, request_id = %id, cause, "request failed");
        } else {
            tracing::warn!(method, route, status = status.as_u16(), request_id = %id, cause, "request refused");
        }
    }
    // The problem of a failed task may carry the gateway's own instance.
    problem.instance.get_or_insert_with(|| id.to_string());
    *response.body_mut() = Body::from(serde_json::to_vec(&problem).unwrap_or_default());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
}

/// What of the request was ignored is told beside the answer, whether that is a yes or a no.
async fn name(warnings: wire::Warnings, response: Response) -> Response {
    // What is repeated has its own.
    if warnings.is_empty() || response.headers().contains_key(IDEMPOTENCY_REPLAYED) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    // Answers to requests with a body are made in one piece: there is nothing to wait for, nor to fail.
    let mut body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default().to_vec();
    add_to(&warnings, &mut body);
    head.headers.remove(CONTENT_LENGTH);
    Response::from_parts(head, Body::from(body))
}

/// A caller can invent methods; each would be a time series.
fn method_label(method: &Method) -> &'static str {
    const KNOWN: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    KNOWN.into_iter().find(|known| *known == method.as_str()).unwrap_or("OTHER")
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panic: {}", text.unwrap_or("without a text"))
}

/// What ties an answer, its problem and its log line together.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RequestId(String);

impl RequestId {
    /// The caller's own if it is fit to be logged and echoed, otherwise a new one.
    fn of(headers: &HeaderMap, now: Timestamp, entropy: &Entropy) -> RequestId {
        let given = headers.get(X_REQUEST_ID).and_then(|value| value.to_str().ok());
        match given {
            Some(text) if is_legal(text) => RequestId(text.to_owned()),
            Some(_) | None => RequestId(entropy.ulid(now).to_string()),
        }
    }

    fn to_header(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.0).ok()
    }
}

fn is_legal(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    (1..=limits::REQUEST_ID_MAX).contains(&text.len()) && text.bytes().all(legal)
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id_for(given: &str) -> String {
        let headers =
            HeaderMap::from_iter([(X_REQUEST_ID, HeaderValue::from_bytes(given.as_bytes()).unwrap())]);
        RequestId::of(&headers, Timestamp(0), &Entropy::from_number(1)).to_string()
    }

    #[test]
    fn a_callers_id_is_kept_only_if_it_is_harmless() {
        assert_eq!(id_for("a.B_9-c"), "a.B_9-c");
        for bad in ["", "a b", "a\"b", "{x}", "ü"] {
            assert_eq!(id_for(bad).len(), 26, "{bad:?}");
        }
        assert!(is_legal(&"x".repeat(128)));
        assert!(!is_legal(&"x".repeat(129)));
    }
}
