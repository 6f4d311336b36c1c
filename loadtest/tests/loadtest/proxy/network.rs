//! What a network does: loses requests, loses answers, takes its time, or says nothing at all.

use crate::proxy::support::{Proxy, Upstream};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

#[tokio::test]
async fn a_dropped_answer_was_done_and_a_dropped_request_was_not() {
    let (upstream, url) = Upstream::start(|_| "{}").await;
    let proxy = Proxy::start(&url, "dynamodb", &["--drop-answers", "1"]);
    proxy.call("PutItem", &json!({})).await.unwrap_err();
    assert_eq!(upstream.asked().len(), 1);
    proxy.set_faults(json!({ "drop_requests": 1 })).await;
    proxy.call("PutItem", &json!({})).await.unwrap_err();
    assert_eq!(upstream.asked().len(), 1);
    proxy.set_faults(json!({})).await;
    assert_eq!(proxy.call("PutItem", &json!({})).await.unwrap().status(), 200);
    let stats = json!({
        "calls": { "PutItem": 3 }, "faults": { "drop_answers": 1, "drop_requests": 1 },
        "forwarded": 2, "upstream_failed": 0,
    });
    assert_eq!(proxy.stats().await, stats);
}

#[tokio::test]
async fn a_blocked_proxy_accepts_and_says_nothing_until_it_is_unblocked() {
    let (upstream, url) = Upstream::start(|_| "{}").await;
    let proxy = Proxy::start(&url, "sqs", &[]);
    proxy.set_faults(json!({ "blocked": true })).await;
    let request = proxy.client.post(proxy.url.clone()).body("{}");
    let waiting = tokio::spawn(request.send());
    proxy.wait_for_fault("blocked", 1).await;
    let impatient = tokio::spawn(proxy.client.post(proxy.url.clone()).body("{}").send());
    proxy.wait_for_fault("blocked", 2).await;
    impatient.abort();
    proxy.wait_for_fault("gave_up", 1).await;
    assert!(upstream.asked().is_empty() && !waiting.is_finished());
    proxy.set_faults(json!({})).await;
    assert_eq!(waiting.await.unwrap().unwrap().status(), 200);
    // The one that went away meanwhile is not passed on.
    assert_eq!(upstream.asked().len(), 1);
}

#[tokio::test]
async fn calls_are_held_back() {
    let (_upstream, url) = Upstream::start(|_| "{}").await;
    let proxy = Proxy::start(&url, "dynamodb", &["--delay-ms", "60-80"]);
    let begin = Instant::now();
    assert_eq!(proxy.call("GetItem", &json!({})).await.unwrap().status(), 200);
    assert!(begin.elapsed() >= Duration::from_millis(60));
}

#[tokio::test]
async fn an_upstream_that_is_not_there_is_a_connection_that_ends() {
    // Port 1 is reserved and nobody listens there.
    let proxy = Proxy::start(&"http://127.0.0.1:1".parse().unwrap(), "dynamodb", &[]);
    proxy.call("GetItem", &json!({})).await.unwrap_err();
    assert_eq!(proxy.stats().await["upstream_failed"], 1);
    proxy.stop().await;
}
