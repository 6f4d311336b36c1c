//! One call through the proxy, from its head to its answer or to the end of its connection.

use super::Proxy;
use super::faults::{Faults, Luck, Plan, decide};
use super::partial::{self, Cut};
use super::refusal;
use super::stats::Fault;
use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Request, Uri, Version, header};
use axum::response::Response;
use futures::StreamExt;
use serde_json::{Value, json};

/// What is read whole, to be cut or counted. The services take 16 MiB and 1 MiB at most.
const BATCH_MAX_BYTES: usize = 17 * 1024 * 1024;

/// Why a connection ends without an answer.
#[derive(Debug, thiserror::Error)]
pub enum Hangup {
    #[error("the request was lost")]
    RequestDropped,
    #[error("the answer was lost")]
    AnswerDropped,
    #[error("the caller went away")]
    Caller(#[source] axum::Error),
    #[error("the upstream did not answer")]
    Upstream(#[source] axum::BoxError),
}

/// Whether the answer goes back to the caller. An error ends the connection.
pub async fn answer<B>(proxy: &Proxy, request: Request<B>) -> Result<Response, Hangup>
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    let (parts, body) = request.map(Body::new).into_parts();
    let operation = proxy.service.operation_of(&parts.method, &parts.uri, &parts.headers);
    proxy.stats.count_call(&operation);
    let luck = proxy.draw();
    let faults = unblocked(proxy).await;
    let (faults, body) = match faults.only {
        None => (faults, body),
        Some(_) => {
            let whole = to_bytes(body, BATCH_MAX_BYTES).await.map_err(Hangup::Caller)?;
            (faults.befalling(&whole), Body::from(whole))
        }
    };
    tokio::time::sleep(luck.delay(&faults)).await;
    let answer = act(proxy, &operation, &luck, decide(&operation, &faults, &luck), parts, body).await?;
    // It may have been blocked meanwhile: then the answer waits too.
    unblocked(proxy).await;
    Ok(answer)
}

/// The faults that hold once calls may pass.
async fn unblocked(proxy: &Proxy) -> Faults {
    let mut faults = proxy.faults.subscribe();
    let now = faults.borrow_and_update().clone();
    if !now.blocked {
        return now;
    }
    proxy.stats.count_fault(Fault::Blocked);
    let mut waiting = Waiting(Some(proxy));
    let faults = faults.wait_for(|faults| !faults.blocked).await;
    waiting.0 = None;
    match faults {
        Ok(faults) => faults.clone(),
        // The sender lives in the proxy itself.
        Err(_) => now,
    }
}

/// A call that waits. It is dropped before its time if its caller disconnects.
struct Waiting<'a>(Option<&'a Proxy>);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(proxy) = self.0 {
            proxy.stats.count_fault(Fault::GaveUp);
        }
    }
}

async fn act(
    proxy: &Proxy,
    operation: &str,
    luck: &Luck,
    plan: Plan,
    parts: Parts,
    body: Body,
) -> Result<Response, Hangup> {
    match plan {
        Plan::DropRequest => {
            proxy.stats.count_fault(Fault::DropRequests);
            Err(Hangup::RequestDropped)
        }
        Plan::Throttle => {
            // Read first: an answer that comes while a caller still sends may not be seen.
            drain(body).await.map_err(Hangup::Caller)?;
            proxy.stats.count_fault(Fault::Throttle);
            Ok(refusal::throttled(proxy.service, &parts.method, &mut luck.chance()))
        }
        Plan::Conflict => {
            let request = to_bytes(body, BATCH_MAX_BYTES).await.map_err(Hangup::Caller)?;
            match transaction_items(&request) {
                Some(items) => {
                    proxy.stats.count_fault(Fault::Conflict);
                    Ok(refusal::conflict(items, &mut luck.chance()))
                }
                None => forward(proxy, parts, Body::from(request)).await,
            }
        }
        Plan::Forward { partial, drop_answer } => {
            let answer = match partial {
                true => forward_part(proxy, operation, luck, parts, body).await?,
                false => forward(proxy, parts, body).await?,
            };
            if !drop_answer {
                return Ok(answer);
            }
            // To its end: some calls are only done when the last byte of their answer is there.
            drain(answer.into_body()).await.map_err(|error| Hangup::Upstream(error.into()))?;
            proxy.stats.count_fault(Fault::DropAnswers);
            Err(Hangup::AnswerDropped)
        }
    }
}

/// Passes a request on as it is: path, query, headers and `Host` byte for byte, so that its signature still holds.
async fn forward(proxy: &Proxy, parts: Parts, body: Body) -> Result<Response, Hangup> {
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let uri = Uri::builder().scheme("http").authority(proxy.upstream.clone()).path_and_query(path).build();
    let uri = uri.map_err(|error| Hangup::Upstream(error.into()))?;
    let mut request = Request::new(body);
    *request.method_mut() = parts.method;
    *request.version_mut() = Version::HTTP_11;
    *request.uri_mut() = uri;
    *request.headers_mut() = parts.headers;
    remove_hop_headers(request.headers_mut());
    let answered = proxy.client.request(request).await;
    proxy.stats.count_forwarded(answered.is_ok());
    let mut answer = answered.map_err(|error| Hangup::Upstream(error.into()))?.map(Body::new);
    remove_hop_headers(answer.headers_mut());
    Ok(answer)
}

/// What is between two neighbours only.
fn remove_hop_headers(headers: &mut HeaderMap) {
    for name in [header::CONNECTION.as_str(), "keep-alive", "proxy-connection"] {
        headers.remove(name);
    }
}

/// Refuses a part of a batch and passes the rest on.
async fn forward_part(
    proxy: &Proxy,
    operation: &str,
    luck: &Luck,
    mut parts: Parts,
    body: Body,
) -> Result<Response, Hangup> {
    let request = to_bytes(body, BATCH_MAX_BYTES).await.map_err(Hangup::Caller)?;
    let cut = serde_json::from_slice(&request)
        .ok()
        .and_then(|value| partial::cut(operation, value, &mut luck.chance()));
    let Some(Cut { rest, refused }) = cut else {
        return forward(proxy, parts, Body::from(request)).await;
    };
    proxy.stats.count_fault(Fault::Partial);
    let Some(rest) = rest else { return Ok(refusal::success(&refused.join(json!({})))) };
    remove_body_headers(&mut parts.headers);
    let answer = forward(proxy, parts, Body::from(rest.to_string())).await?;
    if !answer.status().is_success() {
        return Ok(answer);
    }
    let (mut parts, body) = answer.into_parts();
    let body = to_bytes(body, BATCH_MAX_BYTES).await.map_err(|error| Hangup::Upstream(error.into()))?;
    let done: Value = serde_json::from_slice(&body).map_err(|error| Hangup::Upstream(error.into()))?;
    remove_body_headers(&mut parts.headers);
    Ok(Response::from_parts(parts, Body::from(refused.join(done).to_string())))
}

/// What was said of a body that is another one now.
fn remove_body_headers(headers: &mut HeaderMap) {
    for name in [header::CONTENT_LENGTH.as_str(), header::TRANSFER_ENCODING.as_str(), "x-amz-crc32"] {
        headers.remove(name);
    }
}

fn transaction_items(request: &[u8]) -> Option<usize> {
    let request: Value = serde_json::from_slice(request).ok()?;
    request["TransactItems"].as_array().map(Vec::len).filter(|items| *items > 0)
}

/// Reads a body and forgets it.
async fn drain(body: Body) -> Result<(), axum::Error> {
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        piece?;
    }
    Ok(())
}
