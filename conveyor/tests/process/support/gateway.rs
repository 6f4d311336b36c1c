//! A gateway that counts the calls of each URL, says the number in its answer, and gives as many answers as the test allows.
//! So a test decides when work ends, instead of racing with it.

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

const SMALL_BYTES: usize = 600;
/// More than bodies that share an object may have.
const LARGE_BYTES: usize = 70_000;

pub struct Gateway {
    pub url: String,
    shared: Arc<Shared>,
}

struct Shared {
    calls: Mutex<HashMap<String, u32>>,
    in_flight: AtomicUsize,
    max_in_flight: AtomicUsize,
    answers: Semaphore,
    /// URLs that get no answer before the gateway is open.
    held: Mutex<HashSet<String>>,
    open: watch::Sender<bool>,
}

/// One call under way; over when it is dropped, also because its caller was killed.
struct InFlight(Arc<Shared>);

impl InFlight {
    fn begin(shared: Arc<Shared>) -> InFlight {
        let now = shared.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        shared.max_in_flight.fetch_max(now, Ordering::SeqCst);
        InFlight(shared)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Gateway {
    /// Answers so many calls, and keeps the others waiting.
    pub async fn start(answers: usize) -> Gateway {
        let shared = Arc::new(Shared {
            calls: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            max_in_flight: AtomicUsize::new(0),
            answers: Semaphore::new(answers),
            held: Mutex::default(),
            open: watch::Sender::new(false),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = axum::Router::new().route("/", any(answer)).with_state(shared.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Gateway { url, shared }
    }

    /// Answers so many more.
    pub fn allow(&self, answers: usize) {
        self.shared.answers.add_permits(answers);
    }

    /// Answers one more, unless an answer that was allowed before is still to be given.
    pub fn allow_next(&self) {
        if self.shared.answers.available_permits() == 0 {
            self.allow(1);
        }
    }

    /// Gives no answer for this URL before the gateway is open, whatever is allowed: its run cannot end before that.
    pub fn hold(&self, url: &str) {
        self.shared.held.lock().unwrap().insert(url.to_owned());
    }

    /// Answers everything from now on.
    pub fn open(&self) {
        self.allow(1_000_000);
        self.shared.open.send_replace(true);
    }

    /// Calls under way now, and the most that there were at once.
    pub fn in_flight(&self) -> usize {
        self.shared.in_flight.load(Ordering::SeqCst)
    }

    pub fn max_in_flight(&self) -> usize {
        self.shared.max_in_flight.load(Ordering::SeqCst)
    }

    pub fn calls_in_all(&self) -> usize {
        self.shared.calls.lock().unwrap().values().map(|calls| *calls as usize).sum()
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
    let _in_flight = InFlight::begin(shared.clone());
    if shared.held.lock().unwrap().contains(&url) {
        shared.open.subscribe().wait_for(|open| *open).await.unwrap();
    }
    shared.answers.acquire().await.unwrap().forget();
    let page = |bytes: usize| {
        let text = format!("call {call} of {url}\n");
        text.bytes().chain(std::iter::repeat(b'.')).take(bytes).collect::<Vec<u8>>()
    };
    match url.split('/').nth(3) {
        Some("flaky") if call == 1 => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        Some("missing") => (StatusCode::NOT_FOUND, "no such page").into_response(),
        Some("empty") => StatusCode::OK.into_response(),
        Some("large") => page(LARGE_BYTES).into_response(),
        _ => page(SMALL_BYTES).into_response(),
    }
}
