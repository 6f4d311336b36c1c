//! The timeline of a job, in pages and as a stream.

use crate::world::{KEY, OTHER_KEY, World, golden};
use axum::body::{Body, BodyDataStream};
use axum::http::Request;
use conveyor_domain::Format;
use futures::StreamExt;
use serde_json::{Value, json};
use tower::ServiceExt;

/// An open stream of events.
struct Events {
    stream: BodyDataStream,
    text: String,
}

impl Events {
    async fn open(world: &World, path: &str, last_event_id: Option<&str>) -> Events {
        let request = Request::get(path).header("x-api-key", KEY).header("accept", "text/event-stream");
        let request = match last_event_id {
            Some(id) => request.header("last-event-id", id),
            None => request,
        };
        let response = world.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let mut events = Events { stream: response.into_body().into_data_stream(), text: String::new() };
        assert_eq!(events.block().await.unwrap(), "retry: 1000");
        events
    }

    /// The next block of the stream; `None` at its end.
    async fn block(&mut self) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let block = block.to_owned();
                self.text = rest.to_owned();
                return Some(block);
            }
            let next = tokio::time::timeout(conveyor_testkit::DEADLINE, self.stream.next()).await;
            let piece = next.expect("the stream says nothing")?.unwrap();
            self.text.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }

    /// The next event: id, name and data.
    async fn event(&mut self) -> Option<(u64, String, Value)> {
        let block = self.block().await?;
        let field = |name: &str| {
            let line = block.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
            line.unwrap_or_else(|| panic!("no {name} in {block}")).to_owned()
        };
        let data = serde_json::from_str(&field("data")).unwrap();
        Some((field("id").parse().unwrap(), field("event"), data))
    }
}

#[tokio::test]
async fn a_timeline_is_read_in_pages() {
    let world = World::new().await;
    let id = world.staged(json!({"type": "csv"}), "url\nhttps://a.example\nnonsense\n").await;
    let key = world.submitted(json!({"file_input_id": id})).await;
    world.succeed(key, 0, Format::Html, b"x").await;
    world.apply(key.job, conveyor_domain::Command::Drained).await;
    let path = format!("/v1/jobs/{}/events", key.job);
    let all = world.get(&path).await.json();
    golden("events", &all);
    let text = all.to_string();
    assert!(!text.contains("uploads/") && !text.contains("rejected/"), "no keys of objects: {text}");

    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = world.get(&format!("{path}?limit=2{cursor}")).await.json();
        seen.extend(page["events"].as_array().unwrap().clone());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(json!(seen), all["events"]);
    world.get(&format!("{path}?limit=1001")).await.refused(400, "invalid_argument");
    world.get(&format!("{path}?after=1")).await.refused(400, "invalid_argument");
    world.get(&format!("{path}?cursor=x")).await.refused(400, "invalid_cursor");
    world.call("GET", &path, Some(OTHER_KEY), None).await.refused(404, "not_found");
}

#[tokio::test]
async fn a_stream_tells_what_happens_as_it_happens() {
    let world = World::new().await;
    let key = world.submit("open", 1).await;
    let path = format!("/v1/jobs/{}/events", key.job);
    let mut events = Events::open(&world, &path, None).await;
    let (id, kind, data) = events.event().await.unwrap();
    assert_eq!((id, kind.as_str()), (1, "job.submitted"));
    assert_eq!(data, world.get(&path).await.json()["events"][0], "the same as in a page");
    world.act(&format!("/v1/jobs/{}/close", key.job)).await;
    assert_eq!(events.event().await.unwrap().1, "job.closed");
    world.act(&format!("/v1/jobs/{}/stop", key.job)).await;
    let (last, kind, _) = events.event().await.unwrap();
    assert_eq!((last, kind.as_str()), (3, "run.stopped"));

    for (query, header) in [("", Some("2")), ("?after=2", None), ("?after=1", Some("2"))] {
        let mut resumed = Events::open(&world, &format!("{path}{query}"), header).await;
        assert_eq!(resumed.event().await.unwrap().0, 3, "{query} {header:?}");
    }
    let wrong = Request::get(&path).header("x-api-key", KEY).header("accept", "text/event-stream");
    let wrong = wrong.header("last-event-id", "x").body(Body::empty()).unwrap();
    assert!(world.send(wrong).await.refused(400, "invalid_argument").contains("Last-Event-ID"));

    world.call("DELETE", &format!("/v1/jobs/{}", key.job), Some(KEY), None).await;
    assert_eq!(events.event().await.unwrap().1, "job.deleted");
    assert!(events.event().await.is_none(), "nothing happens to a job that is gone");
}

#[tokio::test(start_paused = true)]
async fn a_quiet_stream_says_that_it_is_there_until_the_process_ends() {
    let world = World::new().await;
    let key = world.submit("open", 1).await;
    let mut events = Events::open(&world, &format!("/v1/jobs/{}/events", key.job), Some("1")).await;
    assert!(events.block().await.unwrap().starts_with(": "));
    world.shutting_down.send(true).unwrap();
    assert!(events.block().await.is_none());
}

#[tokio::test]
async fn a_long_timeline_comes_whole() {
    let world = World::new().await;
    let key = world.accepted().await;
    let failed = conveyor_domain::IngestEvent::AttemptFailed { error: "x".into(), dead_lettered: false };
    world.ingest(key, &vec![failed; 1_100]).await;
    let mut events = Events::open(&world, &format!("/v1/jobs/{}/events", key.job), None).await;
    for expected in 1..=1_102 {
        assert_eq!(events.event().await.unwrap().0, expected);
    }
}
