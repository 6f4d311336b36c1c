//! One caller's receivers that hang, seen by another caller whose receiver answers.

use crate::support::{self, Client, OTHER_KEY, until};
use axum::Router;
use axum::routing::post;
use conveyor_domain::limits;
use futures::{StreamExt, stream};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::time::Instant;

/// With 64 places for everybody, the last of these was tried after three rounds of timeouts.
const HANGING: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_answers_is_told_before_any_that_hangs_times_out() {
    let dir = TempDir::new().unwrap();
    let server = support::embedded(dir.path(), &["--gateway-url", "null:", "--allow-http-webhooks"]);
    let (hanging, own) = (Client::new(&server), Client::with_key(&server, OTHER_KEY));
    let submit = async |client: &Client, url: String| {
        let body = json!({"status": "closed", "tasks": [{"url": "https://example.com/"}],
            "webhook": {"url": url, "signature": false}});
        let (status, answer) = client.post_json("/v1/jobs", &body).await;
        assert_eq!(status, 201, "{answer}");
    };

    let silence = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silence.local_addr().unwrap();
    let connections = Arc::<AtomicUsize>::default();
    let counted = connections.clone();
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((connection, _)) = silence.accept().await {
            held.push(connection);
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    let (answering, told) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), Arc::<AtomicUsize>::default());
    let (answers_at, heard) = (answering.local_addr().unwrap(), told.clone());
    let hear = post(async move || heard.fetch_add(1, Ordering::SeqCst).to_string());
    tokio::spawn(async move { axum::serve(answering, Router::new().route("/hook", hear)).await });

    let submits = (0..HANGING).map(|n| submit(&hanging, format!("http://{address}/{n}")));
    stream::iter(submits).buffer_unordered(64).collect::<Vec<()>>().await;
    until("some hang", async || connections.load(Ordering::SeqCst) > 0).await;
    let began = Instant::now();
    submit(&own, format!("http://{answers_at}/hook")).await;
    until("the receiver that answers is told", async || told.load(Ordering::SeqCst) == 1).await;
    let waited = began.elapsed();
    println!("told after {waited:?} beside {HANGING} that hang");
    assert!(waited < limits::DELIVERY_TIMEOUT, "it waited for those that hang: {waited:?}");
}
