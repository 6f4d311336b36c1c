//! What callers share (SPEC 6.27): one that has its part is refused, the others are not, and what ends makes room.

use crate::world::{Answer, KEY, OTHER_KEY, World, config};
use axum::body::{Body, Bytes};
use axum::http::Request;
use axum::response::Response;
use conveyor_api::{ApiConfig, BodyDeadlines, Peer, Shares};
use conveyor_domain::{Command, Format, limits};
use conveyor_testkit::until;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt, stream};
use serde_json::json;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tower::ServiceExt;

/// Bodies that begin and do not go on, and how many were begun to be read.
#[derive(Default)]
struct Unfinished(Arc<AtomicUsize>);

impl Unfinished {
    fn body(&self) -> Body {
        let read = self.0.clone();
        let begin = stream::once(async move {
            read.fetch_add(1, Ordering::Relaxed);
            Ok::<_, io::Error>(Bytes::from_static(b"{"))
        });
        Body::from_stream(begin.chain(stream::pending()))
    }

    /// A whole body, which counts once its end is read.
    fn after(&self, body: String) -> Body {
        let read = self.0.clone();
        let end = stream::once(async move {
            read.fetch_add(1, Ordering::Relaxed);
            Ok(Bytes::new())
        });
        Body::from_stream(stream::once(async { Ok::<_, io::Error>(Bytes::from(body)) }).chain(end))
    }

    async fn until_read(&self, count: usize) {
        until("all bodies are read", async || self.0.load(Ordering::Relaxed) == count).await;
    }
}

/// A request that is being answered for as long as the answer is kept.
fn under_way(world: &World, request: Request<Body>) -> impl Future<Output = Response> + use<> {
    let router = world.router.clone();
    let answer = tokio::spawn(async move { router.oneshot(request).await.unwrap() });
    async move { answer.await.unwrap() }
}

fn submit(key: &str, body: Body) -> Request<Body> {
    let request = Request::post("/v1/jobs").header("host", "api.test:8080").header("x-api-key", key);
    request.header("content-type", "application/json").header("content-length", 100).body(body).unwrap()
}

fn refused_for_now(answer: &Answer, code: &str) {
    answer.refused(429, code);
    assert_eq!(answer.header("retry-after"), "1");
}

#[tokio::test]
async fn requests_that_do_not_end_cost_their_own_caller_its_places() {
    let (world, bodies) = (World::new().await, Unfinished::default());
    let held: Vec<_> = (0..limits::REQUESTS_OF_CALLER_MAX)
        .map(|_| Box::pin(under_way(&world, submit(KEY, bodies.body()))))
        .collect();
    bodies.until_read(held.len()).await;
    // It waits for one of them first.
    refused_for_now(&world.get("/v1/jobs").await, "too_many_in_flight");
    assert_eq!(world.call("GET", "/v1/jobs", Some(OTHER_KEY), None).await.status, 200);
    let body = json!({"tasks": [{"url": "https://a.example/"}]});
    assert_eq!(world.call("POST", "/v1/jobs", Some(OTHER_KEY), Some(body)).await.status, 201);
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(world.call("GET", path, None, None).await.status, 200, "{path}");
    }
    assert!(held.into_iter().all(|one| one.now_or_never().is_none()));
}

/// Whoever hangs up has its place until what it asked for is written.
#[tokio::test]
async fn hanging_up_gives_no_place_back_before_the_write() {
    let world = World::with(ApiConfig { requests_inflight_max: 2, ..config() }).await;
    let job = world.submit("open", 1).await.job;
    for path in ["/v1/jobs".to_owned(), format!("/v1/jobs/{job}/tasks")] {
        // The store's writer waits for this one.
        let writer = rusqlite::Connection::open(world.files().with_file_name("conveyor.db")).unwrap();
        writer.execute_batch("BEGIN IMMEDIATE").unwrap();
        let ended = Unfinished::default();
        let request = Request::post(&path).header("host", "api.test:8080").header("x-api-key", KEY);
        let request = request.header("content-type", "application/json");
        let body = ended.after(json!({"tasks": [{"url": "https://a.example/"}]}).to_string());
        let asked = tokio::spawn(world.router.clone().oneshot(request.body(body).unwrap()));
        ended.until_read(1).await;
        asked.abort();
        assert!(asked.await.unwrap_err().is_cancelled());
        refused_for_now(&world.get("/v1/jobs").await, "too_many_in_flight");
        writer.execute_batch("ROLLBACK").unwrap();
        until("it is written", async || world.get("/v1/jobs").await.status == 200).await;
    }
    let jobs = world.get("/v1/jobs").await.json();
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 2, "what was asked for is done");
    assert_eq!(world.get(&format!("/v1/jobs/{job}")).await.json()["latest_run"]["stats"]["total"], 2);
}

/// The tasks of a short rerun are in memory until they are written, and the caller that has no room for them waits.
#[tokio::test]
async fn a_short_rerun_takes_room_of_its_own_caller() {
    let body = BodyDeadlines { timeout: Duration::from_millis(500), ..BodyDeadlines::default() };
    let shares = Shares { bodies_of_caller_max_bytes: limits::KIB, body, ..Shares::default() };
    let world = World::with(ApiConfig { shares, ..config() }).await;
    let mut reruns = Vec::new();
    for _ in 0..2 {
        let key = world.submit("closed", 1).await;
        world.fail(key, 0).await;
        world.apply(key.job, Command::Drained).await;
        reruns.push(format!("/v1/jobs/{}/rerun", key.job));
    }
    let writer = rusqlite::Connection::open(world.files().with_file_name("conveyor.db")).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut asked: FuturesUnordered<_> = reruns.iter().map(|path| world.act(path)).collect();
    let refused = asked.next().await.unwrap();
    refused_for_now(&refused, "too_many_bytes");
    assert!(asked.next().now_or_never().is_none(), "it is not written yet");
    writer.execute_batch("ROLLBACK").unwrap();
    assert_eq!(asked.next().await.unwrap().status, 201);
    drop(asked);
    let again = [world.act(&reruns[0]).await.status.as_u16(), world.act(&reruns[1]).await.status.as_u16()];
    assert!(again.contains(&201), "there is room again: {again:?}");
}

#[tokio::test]
async fn a_caller_has_so_many_event_streams_and_one_that_ends_makes_room() {
    let world = World::new().await;
    let job = world.submit("open", 1).await.job;
    let stream = |key: &str| {
        let path = format!("/v1/jobs/{job}/events");
        let request = Request::get(path).header("accept", "text/event-stream").header("x-api-key", key);
        request.body(Body::empty()).unwrap()
    };
    let mut open = Vec::new();
    for _ in 0..limits::EVENT_STREAMS_OF_CALLER_MAX {
        open.push(under_way(&world, stream(KEY)).await);
    }
    assert!(open.iter().all(|answer| answer.status() == 200));
    refused_for_now(&world.send(stream(KEY)).await, "too_many_streams");
    assert_eq!(world.get("/v1/jobs").await.status, 200, "all else is still there");
    open.pop();
    assert_eq!(under_way(&world, stream(KEY)).await.status(), 200);
}

#[tokio::test]
async fn a_caller_uploads_so_many_lists_at_once() {
    let (world, bodies) = (World::new().await, Unfinished::default());
    let target = async |key| {
        let slot = world.call("POST", "/v1/job_inputs", Some(key), Some(json!({"type": "lines"}))).await;
        slot.json()["upload"].clone()
    };
    let in_parts = world.slot(json!({"type": "lines", "multipart": true})).await;
    let in_parts = format!("/v1/job_inputs/{}", in_parts["file_input_id"].as_str().unwrap());
    let part = world.post(&format!("{in_parts}/parts"), json!({"numbers": [1]})).await.json();
    assert_eq!(world.put(&part["parts"][0], "https://a.example/\n").await.status, 200);
    let mut held = Vec::new();
    for _ in 0..limits::UPLOADS_OF_CALLER_MAX {
        let target = target(KEY).await;
        let request = Request::put(crate::world::path_of(&target))
            .header("content-type", target["headers"]["Content-Type"].as_str().unwrap());
        held.push(Box::pin(under_way(&world, request.body(bodies.body()).unwrap())));
    }
    let (own, other) = (target(KEY).await, target(OTHER_KEY).await);
    let list = "https://a.example/\n";
    bodies.until_read(held.len()).await;
    refused_for_now(&world.put(&own, list).await, "too_many_uploads");
    refused_for_now(&world.act(&format!("{in_parts}/complete")).await, "too_many_uploads");
    assert_eq!(world.put(&other, list).await.status, 200);
    assert!(held.into_iter().all(|one| one.now_or_never().is_none()));
}

/// With one place for a caller there is none for a second list: that is known before anything about the list is read.
#[tokio::test]
async fn an_upload_has_a_place_before_anything_is_read() {
    let world = World::with(ApiConfig { requests_inflight_max: 2, ..config() }).await;
    let (first, gone) =
        (world.slot(json!({"type": "lines"})).await, world.slot(json!({"type": "lines"})).await);
    let aborted = format!("/v1/job_inputs/{}", gone["file_input_id"].as_str().unwrap());
    assert_eq!(world.call("DELETE", &aborted, Some(KEY), None).await.status, 204);
    let bodies = Unfinished::default();
    let request = Request::put(crate::world::path_of(&first["upload"])).header("content-type", "text/plain");
    let held = Box::pin(under_way(&world, request.body(bodies.body()).unwrap()));
    bodies.until_read(1).await;
    refused_for_now(&world.put(&gone["upload"], "https://a.example/\n").await, "too_many_in_flight");
    assert!(held.now_or_never().is_none());
}

/// A caller may have any number of jobs, and so of URLs: whoever reads none of what they lead to keeps out nobody with a key,
/// and no URL of another caller.
#[tokio::test]
async fn urls_of_many_jobs_cost_their_own_caller_its_places() {
    let world = World::with(ApiConfig { requests_inflight_max: 16, ..config() }).await;
    let mut urls = Vec::new();
    for _ in 0..8 {
        let key = world.submit("closed", 1).await;
        world.succeed(key, 0, Format::Html, b"hello").await;
        let page = world.get(&format!("/v1/jobs/{}/results", key.job)).await.json();
        urls.push(crate::world::path_of(&json!({"url": page["results"][0]["result_url"]})));
    }
    let task = json!({"tasks": [{"url": "https://a.example/"}]});
    let other = world.call("POST", "/v1/jobs", Some(OTHER_KEY), Some(task)).await.run_key();
    world.succeed(other, 0, Format::Html, b"hello").await;
    let mut held = Vec::new();
    for url in &urls {
        held.push(under_way(&world, Request::get(url).body(Body::empty()).unwrap()).await);
    }
    let answers: Vec<_> = held.iter().map(|answer| answer.status().as_u16()).collect();
    assert_eq!(answers, [200, 200, 429, 429, 429, 429, 429, 429]);
    assert_eq!(world.get("/v1/jobs").await.status, 200);
    let others = world.call("GET", &format!("/v1/jobs/{}/results", other.job), Some(OTHER_KEY), None).await;
    let others = crate::world::path_of(&json!({"url": others.json()["results"][0]["result_url"]}));
    assert_eq!(world.call("GET", &others, None, None).await.status, 200);
    drop(held);
    assert_eq!(world.call("GET", &urls[7], None, None).await.status, 200, "there is room again");
}

/// Results are verified before they are sent, so each is held whole: nobody holds more of them than its part.
#[tokio::test]
async fn answers_that_nobody_reads_leave_memory_to_others() {
    const SIZE: usize = 256 * limits::KIB;
    const BODY: &[u8] = &[b'x'; SIZE];
    let shares = Shares { answers_max_bytes: 8 * SIZE, ..Shares::default() };
    let world = World::with(ApiConfig { shares, ..config() }).await;
    let key = world.submit("closed", 1).await;
    world.succeed(key, 0, Format::Html, BODY).await;
    let page = world.get(&format!("/v1/jobs/{}/results", key.job)).await.json();
    let url = crate::world::path_of(&json!({"url": page["results"][0]["result_url"]}));
    let task = page["results"][0]["task_id"].as_str().unwrap();
    let path = format!("/v1/jobs/{}/tasks/{task}/content", key.job);
    let unread = || Request::get(&path).header("x-api-key", KEY).body(Body::empty()).unwrap();
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(under_way(&world, unread()).await);
    }
    assert!(held.iter().all(|answer| answer.status() == 200));
    let mut more = Box::pin(under_way(&world, unread()));
    // Whoever holds the URL is another, and finds room meanwhile: what comes with the key waits for its own.
    let by_url = world.call("GET", &url, None, None).await;
    assert_eq!((by_url.status.as_u16(), by_url.body.len()), (200, SIZE));
    assert_eq!(world.get("/v1/jobs").await.status, 200, "small answers need no room");
    assert!(more.as_mut().now_or_never().is_none());
    held.pop();
    assert_eq!(more.await.status(), 200);
}

#[tokio::test]
async fn unknown_keys_are_slowed_by_address_and_known_ones_are_not() {
    let world = World::new().await;
    let from = async |last: u8, path: &str, key: &str| {
        let request = Request::get(path).header("x-api-key", key);
        let peer = Peer::new([127, 0, 0, last].into());
        world.send(request.extension(peer).body(Body::empty()).unwrap()).await
    };
    assert_eq!(from(2, "/v1/jobs", KEY).await.status, 200);
    for n in 0..limits::UNKNOWN_KEYS_BURST {
        let path = if n % 2 == 0 { "/v1/jobs" } else { "/v1/admin/keys" };
        from(2, path, &format!("guessed-{n}")).await.refused(401, "unauthenticated");
    }
    refused_for_now(&from(2, "/v1/jobs", "guessed").await, "too_many_unknown_keys");
    refused_for_now(&from(2, "/v1/admin/keys", "guessed").await, "too_many_unknown_keys");
    assert_eq!(from(2, "/v1/jobs", KEY).await.status, 200, "accepted before");
    assert_eq!(from(2, "/v1/jobs", OTHER_KEY).await.status, 200, "looked up for the first time");
    from(3, "/v1/jobs", "guessed").await.refused(401, "unauthenticated");
    let none = Request::get("/v1/jobs").extension(Peer::new([127, 0, 0, 2].into()));
    world.send(none.body(Body::empty()).unwrap()).await.refused(401, "unauthenticated");
}
