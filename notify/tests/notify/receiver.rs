//! A receiver on loopback that answers as it is told, and remembers what it heard.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::sync::Notify;

#[derive(Clone)]
pub enum Reply {
    Status(u16),
    Redirect(String),
    Never,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Heard {
    pub headers: HeaderMap,
    pub body: String,
}

#[derive(Default)]
struct Shared {
    replies: Mutex<VecDeque<Reply>>,
    heard: Mutex<Vec<Heard>>,
    came: Notify,
}

pub struct Receiver {
    pub url: String,
    shared: Arc<Shared>,
}

impl Receiver {
    /// Answers one reply after the other, and 200 from then on.
    pub async fn new(replies: impl IntoIterator<Item = Reply>) -> Receiver {
        let shared =
            Arc::new(Shared { replies: Mutex::new(replies.into_iter().collect()), ..Shared::default() });
        let app = Router::new().route("/hook", post(hear)).with_state(shared.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Receiver { url, shared }
    }

    pub fn heard(&self) -> Vec<Heard> {
        self.shared.heard.lock().unwrap().clone()
    }

    /// Waits until something came.
    pub async fn came(&self) {
        self.shared.came.notified().await;
    }
}

async fn hear(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let body = String::from_utf8(body.to_vec()).unwrap();
    shared.heard.lock().unwrap().push(Heard { headers, body });
    shared.came.notify_one();
    let reply = shared.replies.lock().unwrap().pop_front();
    match reply.unwrap_or(Reply::Status(200)) {
        Reply::Status(code) => StatusCode::from_u16(code).unwrap().into_response(),
        Reply::Redirect(to) => (StatusCode::TEMPORARY_REDIRECT, [("location", to)]).into_response(),
        Reply::Never => std::future::pending().await,
    }
}
