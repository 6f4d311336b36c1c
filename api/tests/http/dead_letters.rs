//! Messages that were given up, as an operator meets them (SPEC 6.15).

use crate::world::{KEY, World, golden};
use conveyor_domain::{DeadLetter, IngestEvent, IngestRef, IngestState, LetterId, QueueName, limits};
use conveyor_store::port::{Reader, RunKey};
use serde_json::{Value, json};

impl World {
    /// A run whose list nobody reads any more, and its letter.
    async fn given_up(&self, error: &str) -> (RunKey, LetterId) {
        let key = self.accepted().await;
        let letter = self.give_up(key, error).await;
        (key, letter)
    }

    async fn give_up(&self, key: RunKey, error: &str) -> LetterId {
        self.ingest(key, &[IngestEvent::AttemptFailed { error: error.into(), dead_lettered: true }]).await;
        while !self.backend.queue.remove(QueueName::Control, 100).await.unwrap() {}
        let log = self.backend.store.ingest(key, Reader::Role).await.unwrap().unwrap().log;
        let progress = IngestState::fold(&log).unwrap().progress;
        let message = IngestRef { job: key.job, run: key.run, progress };
        let letter = DeadLetter::new(message.to_string(), self.now());
        self.backend.store.keep_letter(letter.clone()).await.unwrap();
        letter.id
    }

    async fn letters(&self, query: &str) -> Vec<String> {
        let answer = self.operate("GET", &format!("dead_letters{query}"), None).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        ids(&answer.json())
    }

    async fn control_messages(&self) -> u64 {
        self.backend.queue.depth(QueueName::Control, Reader::Role, self.now()).await.unwrap().visible
    }
}

fn ids(page: &Value) -> Vec<String> {
    let id = |letter: &Value| letter["letter_id"].as_str().unwrap().to_owned();
    page["dead_letters"].as_array().unwrap().iter().map(id).collect()
}

#[tokio::test]
async fn letters_are_listed_shown_and_filtered() {
    let world = World::new().await;
    let (first, first_letter) = world.given_up("the disk is away").await;
    let (_, second_letter) = world.given_up("no room left").await;
    let mut all = [first_letter, second_letter].map(|letter| letter.to_string());
    all.sort();
    assert_eq!(world.letters("").await, all);
    let one = world.letters("?error=disk").await;
    assert_eq!(one, [first_letter.to_string()]);
    assert_eq!(world.letters(&format!("?job_id={}", first.job)).await, one);
    assert_eq!(world.letters(&format!("?run_id={}", first.run)).await, one);
    assert!(world.letters(&format!("?run_id={}&error=room", first.run)).await.is_empty());
    golden("dead_letter", &world.operate("GET", &format!("dead_letters/{first_letter}"), None).await.json());

    let page = world.operate("GET", "dead_letters?limit=1", None).await.json();
    assert_eq!(ids(&page), all[..1]);
    let cursor = page["next_cursor"].as_str().unwrap();
    assert_eq!(world.letters(&format!("?limit=1&cursor={cursor}")).await, all[1..]);
    let elsewhere = world.operate("GET", &format!("dead_letters?error=disk&cursor={cursor}"), None).await;
    elsewhere.refused(400, "invalid_cursor");
    let empty = world.operate("GET", "dead_letters?error=", None).await;
    assert!(empty.refused(400, "invalid_argument").contains("`error`"));
    for bad in ["job_id=x", "run_id=x", "limit=101", "eror=x"] {
        let answer = world.operate("GET", &format!("dead_letters?{bad}"), None).await;
        answer.refused(400, "invalid_argument");
    }
    let unknown = LetterId::from_bytes([9; 16]);
    for (method, rest) in [("GET", ""), ("DELETE", ""), ("POST", "/redrive")] {
        let path = format!("dead_letters/{unknown}{rest}");
        world.operate(method, &path, None).await.refused(404, "not_found");
    }
}

#[tokio::test]
async fn a_letter_is_sent_again_as_often_as_it_may() {
    let world = World::new().await;
    let (key, letter) = world.given_up("the disk is away").await;
    let path = format!("dead_letters/{letter}/redrive");
    for n in 1..=limits::REDRIVES_MAX {
        let answer = world.operate("POST", &path, None).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["outcome"]), (200, &json!("sent")), "{n}");
        assert_eq!(world.control_messages().await, 1, "{n}");
        world.operate("POST", &path, None).await.refused(404, "not_found");
        world.give_up(key, "the disk is away").await;
    }
    let detail = world.operate("POST", &path, None).await.refused(409, "redrive_limit");
    assert!(detail.contains("2 times"), "{detail}");
    let events = world.get(&format!("/v1/jobs/{}/events", key.job)).await.json();
    let redriven = events["events"].as_array().unwrap().iter().filter(|e| e["type"] == "ingest.redriven");
    assert_eq!(redriven.count(), 2);
}

#[tokio::test]
async fn a_letter_that_nobody_needs_is_acknowledged() {
    let world = World::new().await;
    let (key, letter) = world.given_up("the disk is away").await;
    world.call("DELETE", &format!("/v1/jobs/{}/runs/{}", key.job, key.run), Some(KEY), None).await;
    let answer = world.operate("POST", &format!("dead_letters/{letter}/redrive"), None).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["outcome"]), (200, &json!("acknowledged")));
    assert!(world.letters("").await.is_empty());
    assert_eq!(world.control_messages().await, 0);
}

#[tokio::test]
async fn a_purged_letter_fails_the_run_that_waits_for_it() {
    let world = World::new().await;
    let (key, letter) = world.given_up("the disk is away").await;
    let answer = world.operate("DELETE", &format!("dead_letters/{letter}"), None).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["outcome"]), (200, &json!("purged")));
    assert!(world.letters("").await.is_empty());
    let run = world.get(&format!("/v1/jobs/{}", key.job)).await.json()["latest_run"].clone();
    assert_eq!((&run["status"], &run["failure_reason"]), (&json!("failed"), &json!("ingest_failed")));
    assert!(run["failure_detail"].as_str().unwrap().contains("the disk is away"), "{run}");
    let ingest = world.get(&format!("/v1/jobs/{}/runs/{}/ingest", key.job, key.run)).await.json();
    assert_eq!((&ingest["state"], &ingest["error"]["code"]), (&json!("failed"), &json!("ingest_failed")));
}

#[tokio::test]
async fn many_are_sent_again_by_what_they_have_in_common() {
    let world = World::new().await;
    let mut letters = Vec::new();
    for n in 0..3 {
        letters.push(world.given_up(if n == 2 { "no room left" } else { "the disk is away" }).await.1);
    }
    let bulk = async |body: Value| world.operate("POST", "dead_letters/redrive", Some(body)).await;
    for nothing in [json!({}), json!({"limit": 5}), json!({"all": false})] {
        let detail = bulk(nothing).await.refused(400, "invalid_argument");
        assert!(detail.contains("`all`"), "{detail}");
    }
    for bad in [
        json!({"all": true, "error": "disk"}),
        json!({"all": true, "limit": 101}),
        json!({"all": true, "per_second": 0}),
        json!({"all": true, "cursor": "x"}),
    ] {
        assert_eq!(bulk(bad.clone()).await.status, 400, "{bad}");
    }
    let empty = bulk(json!({"error": ""})).await.refused(400, "invalid_argument");
    assert!(empty.contains("`error`"), "{empty}");
    assert_eq!(world.letters("").await.len(), 3, "nothing was sent by half");

    let first = bulk(json!({"error": "disk", "limit": 1})).await.json();
    assert_eq!((ids(&first).len(), &first["more"]), (1, &json!(true)));
    let rest = bulk(json!({"error": "disk", "cursor": first["next_cursor"]})).await.json();
    assert_eq!((ids(&rest).len(), &rest["more"], rest.get("next_cursor")), (1, &json!(false), None));
    assert_eq!(rest["dead_letters"][0]["outcome"], "sent");
    assert_eq!(world.letters("").await, [letters[2].to_string()]);
    let all = bulk(json!({"all": true, "per_second": 1000})).await.json();
    assert_eq!(ids(&all), [letters[2].to_string()]);
    assert_eq!(world.control_messages().await, 3);
}

#[tokio::test]
async fn a_slow_pace_ends_with_the_answer_and_goes_on_with_the_next() {
    let world = World::new().await;
    for n in 0..3 {
        world.given_up(&format!("error {n}")).await;
    }
    tokio::time::pause();
    // One in fifteen seconds: two fit into the time of an answer.
    let mut body = json!({"all": true, "per_second": 1.0 / 15.0});
    let first = world.operate("POST", "dead_letters/redrive", Some(body.clone())).await.json();
    assert_eq!((ids(&first).len(), &first["more"]), (2, &json!(true)));
    body["cursor"] = first["next_cursor"].clone();
    let rest = world.operate("POST", "dead_letters/redrive", Some(body)).await.json();
    assert_eq!((ids(&rest).len(), &rest["more"]), (1, &json!(false)));
}
