//! What a server talks to: a gateway, a receiver of webhooks and Step Functions, in one.

use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

const LARGE_BYTES: usize = 100_000;

/// A call of the gateway.
#[derive(Clone, Debug)]
pub struct Call {
    pub url: String,
    pub key: String,
    pub canary: Option<String>,
}

/// A notification: its headers and its body.
pub type Notice = (HeaderMap, String);

#[derive(Debug, Default)]
struct Heard {
    calls: Vec<Call>,
    notices: Vec<Notice>,
    machines: Vec<Value>,
}

#[derive(Debug)]
pub struct Outside {
    pub url: String,
    heard: Arc<Mutex<Heard>>,
}

impl Outside {
    pub async fn start() -> Outside {
        let heard = Arc::new(Mutex::new(Heard::default()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = axum::Router::new().fallback(answer).with_state(heard.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Outside { url, heard }
    }

    pub fn calls(&self) -> Vec<Call> {
        self.heard.lock().unwrap().calls.clone()
    }

    pub fn notices(&self) -> Vec<Notice> {
        self.heard.lock().unwrap().notices.clone()
    }

    /// What state machines were told.
    pub fn machines(&self) -> Vec<Value> {
        self.heard.lock().unwrap().machines.clone()
    }
}

/// The body of a page, as the generator of the fixtures has it.
pub fn page(url: &str) -> Vec<u8> {
    let text = format!("page of {url}\n").into_bytes();
    if url.split('/').nth(3) == Some("large") {
        return text.iter().copied().cycle().take(LARGE_BYTES).collect();
    }
    text
}

pub fn is_missing(url: &str) -> bool {
    url.split('/').nth(3) == Some("missing")
}

async fn answer(
    State(heard): State<Arc<Mutex<Heard>>>,
    uri: Uri,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut heard = heard.lock().unwrap();
    if headers.contains_key("x-amz-target") {
        heard.machines.push(serde_json::from_slice(&body).unwrap());
        return ([("content-type", "application/x-amz-json-1.0")], "{}").into_response();
    }
    if uri.path() == "/hook" {
        heard.notices.push((headers, String::from_utf8(body.to_vec()).unwrap()));
        return StatusCode::OK.into_response();
    }
    let Some(url) = query.get("url").cloned() else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let canary = headers.get("x-canary").map(|value| value.to_str().unwrap().to_owned());
    heard.calls.push(Call { url: url.clone(), key: query["apikey"].clone(), canary });
    if is_missing(&url) {
        return (StatusCode::NOT_FOUND, "no such page").into_response();
    }
    ([("x-request-credits", "1"), ("x-request-cost", "0.001")], page(&url)).into_response()
}
