//! Notifications of a job: sent, looked at, replayed.

use crate::world::{Answer, KEY, World, golden};
use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use conveyor_domain::{Command, EventId, Format, RunId};
use conveyor_store::port::RunKey;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use tokio::net::TcpListener;

/// A receiver on loopback that answers as it is told.
struct Receiver {
    url: String,
    status: Arc<AtomicU16>,
    heard: Arc<AtomicU32>,
}

impl Receiver {
    async fn new(status: u16) -> Receiver {
        let (status, heard) = (Arc::new(AtomicU16::new(status)), Arc::new(AtomicU32::new(0)));
        let (answer, count) = (status.clone(), heard.clone());
        let handle = async move |_body: String| {
            count.fetch_add(1, Ordering::SeqCst);
            StatusCode::from_u16(answer.load(Ordering::SeqCst)).unwrap()
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, Router::new().route("/hook", post(handle))).await });
        Receiver { url, status, heard }
    }

    fn heard(&self) -> u32 {
        self.heard.load(Ordering::SeqCst)
    }
}

impl World {
    /// A job whose only task is done, and that told nobody yet.
    async fn completed(&self, url: &str) -> RunKey {
        let body = json!({
            "tasks": [{"url": "https://site.example/"}],
            "external_id": "mine", "metadata": {"k": "v"}, "webhook": {"url": url},
        });
        let key = self.submitted(body).await;
        self.succeed(key, 0, Format::Html, b"x").await;
        self.apply(key.job, Command::Drained).await;
        key
    }

    async fn deliveries(&self, key: RunKey) -> Vec<Value> {
        let answer = self.get(&format!("/v1/jobs/{}/deliveries", key.job)).await.json();
        answer["deliveries"].as_array().unwrap().clone()
    }

    async fn replay(&self, key: RunKey, event: &Value) -> Answer {
        let event = event.as_str().unwrap();
        self.act(&format!("/v1/jobs/{}/deliveries/{event}/replay", key.job)).await
    }
}

/// Without what the network decides.
fn timeless(mut delivery: Value) -> Value {
    delivery["event_id"] = "[event]".into();
    if delivery.get("event").is_some() {
        delivery["event"]["event_id"] = "[event]".into();
    }
    for attempt in delivery["attempts"].as_array_mut().unwrap() {
        attempt["elapsed_ms"] = 0.into();
    }
    delivery
}

#[tokio::test]
async fn a_delivery_shows_every_try() {
    let world = World::new().await;
    let receiver = Receiver::new(500).await;
    let key = world.completed(&receiver.url).await;
    let pending = world.deliveries(key).await;
    assert_eq!((pending.len(), &pending[0]["state"]), (1, &json!("pending")));
    assert_eq!(world.notifier.deliver_due().await.unwrap(), 1);
    let failed = world.deliveries(key).await.remove(0);
    assert_eq!(failed["attempts"][0]["error"], "http_5xx:500");
    assert_eq!(world.notifier.deliver_due().await.unwrap(), 0, "not before its time");
    receiver.status.store(204, Ordering::SeqCst);
    world.pass_ms(10_000);
    assert_eq!(world.notifier.deliver_due().await.unwrap(), 1);
    let event = failed["event_id"].as_str().unwrap();
    let shown = world.get(&format!("/v1/jobs/{}/deliveries/{event}", key.job)).await.json();
    golden("delivery", &timeless(shown));
    assert!(world.deliveries(key).await[0].get("event").is_none(), "a list is without what was sent");
}

#[tokio::test]
async fn a_replay_sends_the_same_event_again() {
    let world = World::new().await;
    let receiver = Receiver::new(200).await;
    let key = world.completed(&receiver.url).await;
    world.notifier.deliver_due().await.unwrap();
    let before = world.deliveries(key).await.remove(0);
    let replayed = world.replay(key, &before["event_id"]).await;
    assert_eq!((replayed.status.as_u16(), &replayed.json()["state"]), (202, &json!("pending")));
    world.notifier.deliver_due().await.unwrap();
    let after = world.deliveries(key).await.remove(0);
    assert_eq!((after["state"].as_str(), &after["attempts_made"]), (Some("delivered"), &json!(2)));
    assert_eq!(receiver.heard(), 2);
    let unknown = json!(EventId::derived(RunId::from_bytes([1; 16]), "x"));
    world.replay(key, &unknown).await.refused(404, "not_found");
    world.call("DELETE", &format!("/v1/jobs/{}/webhook", key.job), Some(KEY), None).await;
    world.replay(key, &before["event_id"]).await.refused(409, "conflict");
}

#[tokio::test]
async fn a_job_without_a_webhook_any_more_tells_nobody() {
    let world = World::new().await;
    let receiver = Receiver::new(200).await;
    let key = world.completed(&receiver.url).await;
    world.call("DELETE", &format!("/v1/jobs/{}/webhook", key.job), Some(KEY), None).await;
    world.notifier.deliver_due().await.unwrap();
    let cancelled = world.deliveries(key).await.remove(0);
    assert_eq!((cancelled["state"].as_str(), receiver.heard()), (Some("cancelled"), 0));
}

#[tokio::test]
async fn a_receiver_that_is_gone_disables_the_webhook() {
    let world = World::new().await;
    let receiver = Receiver::new(410).await;
    let key = world.completed(&receiver.url).await;
    world.notifier.deliver_due().await.unwrap();
    assert_eq!(world.deliveries(key).await[0]["state"], "failed");
    let hook = world.get(&format!("/v1/jobs/{}/webhook", key.job)).await.json();
    assert!(hook["disabled"]["reason"].as_str().unwrap().contains("410"));
}

#[tokio::test]
async fn a_test_tells_what_the_receiver_said() {
    let world = World::new().await;
    let receiver = Receiver::new(204).await;
    let test = async || world.post("/v1/webhook/test", json!({"url": receiver.url})).await;
    let good = test().await;
    assert_eq!((good.status.as_u16(), good.json()["delivered"].as_bool()), (200, Some(true)));
    assert_eq!((&good.json()["status_code"], good.json().get("error")), (&json!(204), None));
    receiver.status.store(404, Ordering::SeqCst);
    let bad = test().await.json();
    assert_eq!((&bad["delivered"], bad["error"].as_str()), (&json!(false), Some("http_4xx:404")));
    assert_ne!(good.json()["event_id"], bad["event_id"]);
}

#[tokio::test]
async fn what_happened_long_ago_is_not_kept() {
    let world = World::new().await;
    let key = world.completed("https://127.0.0.1:9/hook").await;
    let event = world.deliveries(key).await[0]["event_id"].clone();
    world.pass_days(31);
    assert!(world.deliveries(key).await.is_empty());
    world.replay(key, &event).await.refused(404, "not_found");
}
