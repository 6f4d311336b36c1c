//! A gateway that knows how often each URL was asked for, says so in its answer, and gives as many answers as it is allowed.

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

const SMALL_BYTES: usize = 600;
/// More than bodies that share an object may have.
const LARGE_BYTES: usize = 70_000;

pub struct Gateway {
    pub url: String,
    shared: Arc<Shared>,
}

struct Shared {
    calls: Mutex<HashMap<String, u32>>,
    answers: Semaphore,
}

impl Gateway {
    /// Answers so many calls, and keeps the others waiting.
    pub async fn start(answers: usize) -> Gateway {
        let shared = Arc::new(Shared { calls: Mutex::default(), answers: Semaphore::new(answers) });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = axum::Router::new().route("/", any(answer)).with_state(shared.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Gateway { url, shared }
    }

    /// Answers everything from now on.
    pub fn open(&self) {
        self.shared.answers.add_permits(1_000_000);
    }

    /// How often each URL was asked for.
    pub fn calls(&self) -> HashMap<String, u32> {
        self.shared.calls.lock().unwrap().clone()
    }
}

async fn answer(State(shared): State<Arc<Shared>>, Query(query): Query<HashMap<String, String>>) -> Response {
    let url = query["url"].clone();
    let call = {
        let mut calls = shared.calls.lock().unwrap();
        let call = calls.entry(url.clone()).or_default();
        *call += 1;
        *call
    };
    shared.answers.acquire().await.unwrap().forget();
    let page = |bytes: usize| {
        let text = format!("call {call} of {url}\n");
        text.bytes().chain(std::iter::repeat(b'.')).take(bytes).collect::<Vec<u8>>()
    };
    match url.split('/').nth(3) {
        Some("missing") => (StatusCode::NOT_FOUND, "no such page").into_response(),
        Some("empty") => StatusCode::OK.into_response(),
        Some("large") => page(LARGE_BYTES).into_response(),
        _ => page(SMALL_BYTES).into_response(),
    }
}
