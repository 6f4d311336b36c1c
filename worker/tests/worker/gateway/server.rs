//! Servers to talk to: one that answers what a test says and keeps what it received, and one that says exactly these
//! bytes.

use axum::Router;
use axum::body::{Bytes, to_bytes};
use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use url::{Url, form_urlencoded};

#[derive(Clone, Debug)]
pub struct Received {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Where it came from: one connection is one port.
    pub peer: SocketAddr,
}

impl Received {
    pub fn query(&self) -> Vec<(String, String)> {
        form_urlencoded::parse(self.uri.query().unwrap_or_default().as_bytes()).into_owned().collect()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

pub struct Server {
    pub address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Server {
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn endpoint(&self) -> Url {
        self.url("/").parse().unwrap()
    }

    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// The one request that there was.
    pub fn only(&self) -> Received {
        let mut received = self.received();
        assert_eq!(received.len(), 1);
        received.remove(0)
    }
}

pub async fn serve<F>(answer: F) -> Server
where
    F: Fn(&Received) -> Response + Clone + Send + Sync + 'static,
{
    serve_at("127.0.0.1:0", answer).await
}

/// Linux answers on all of 127.0.0.0/8, so a test can have hosts that are allowed and hosts that are not.
pub async fn serve_at<F>(address: &str, answer: F) -> Server
where
    F: Fn(&Received) -> Response + Clone + Send + Sync + 'static,
{
    let listener = TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap();
    let received: Arc<Mutex<Vec<Received>>> = Arc::default();
    let log = received.clone();
    let app = Router::new().fallback(move |request: Request| {
        let (answer, log) = (answer.clone(), log.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body = to_bytes(body, usize::MAX).await.unwrap();
            let ConnectInfo(peer) = *parts.extensions.get().unwrap();
            let received =
                Received { method: parts.method, uri: parts.uri, headers: parts.headers, body, peer };
            log.lock().unwrap().push(received.clone());
            answer(&received)
        }
    });
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    Server { address, received }
}

pub fn status(code: u16) -> Response {
    StatusCode::from_u16(code).unwrap().into_response()
}

pub fn redirect(code: u16, to: &str) -> Response {
    (StatusCode::from_u16(code).unwrap(), [(header::LOCATION, to)]).into_response()
}

pub fn problem(code: u16, body: serde_json::Value) -> Response {
    let typed = [(header::CONTENT_TYPE, "application/problem+json")];
    (StatusCode::from_u16(code).unwrap(), typed, body.to_string()).into_response()
}

/// What a raw server does once it has said its bytes.
#[derive(Clone, Copy)]
pub enum Then {
    Close,
    HoldOpen,
}

/// Answers the first request of each connection with exactly these bytes.
pub async fn serve_raw(bytes: &'static [u8], then: Then) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut held = Vec::new();
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                if socket.read_buf(&mut request).await.unwrap() == 0 {
                    break;
                }
            }
            socket.write_all(bytes).await.unwrap();
            match then {
                Then::Close => socket.shutdown().await.unwrap(),
                Then::HoldOpen => held.push(socket),
            }
        }
    });
    address
}
