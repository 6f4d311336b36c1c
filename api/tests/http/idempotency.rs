//! Requests that are repeated under a key (SPEC 6.23).

use crate::world::{Answer, KEY, OTHER_KEY, World, golden};
use axum::body::Body;
use axum::http::Request;
use conveyor_domain::{JobId, limits};
use conveyor_store::clock_watch;
use futures::future::join_all;
use serde_json::{Value, json};
use std::pin::pin;
use std::task::Poll;
use tower::ServiceExt;

const LEASE_MS: i64 = limits::IDEMPOTENCY_LEASE.as_millis() as i64;

fn request(path: &str, caller: &str, key: &str, body: &str) -> Request<Body> {
    let request = Request::post(path).header("x-api-key", caller).header("host", "api.test:8080");
    let request = request.header("content-type", "application/json").header("idempotency-key", key);
    request.body(Body::from(body.to_owned())).unwrap()
}

async fn send(world: &World, path: &str, key: &str, body: &str) -> Answer {
    world.send(request(path, KEY, key, body)).await
}

fn tasks(count: usize) -> Value {
    (0..count).map(|n| json!({"url": format!("https://site.example/{n}")})).collect()
}

fn submit(count: usize) -> String {
    json!({"tasks": tasks(count)}).to_string()
}

fn is_replay(answer: &Answer) -> bool {
    answer.header("idempotency-replayed") == "true"
}

async fn jobs(world: &World) -> usize {
    world.get("/v1/jobs").await.json()["jobs"].as_array().unwrap().len()
}

/// Objects of staged lists that no job needs.
async fn nothing_is_staged_but(world: &World, uploads: usize) {
    assert_eq!(world.objects_under("uploads"), uploads);
}

#[tokio::test]
async fn a_repeat_is_answered_like_the_first() {
    let world = World::new().await;
    let first = send(&world, "/v1/jobs", "order 66", &submit(2)).await;
    assert_eq!((first.status.as_u16(), is_replay(&first)), (201, false));
    let again = send(&world, "/v1/jobs", "order 66", &submit(2)).await;
    assert_eq!((again.status.as_u16(), is_replay(&again)), (201, true));
    assert_eq!(again.body, first.body);
    for header in ["location", "content-type"] {
        assert_eq!(again.header(header), first.header(header), "{header}");
    }
    golden("idempotency_replayed", &again.json());
    assert_eq!(jobs(&world).await, 1);

    let other = world.send(request("/v1/jobs", OTHER_KEY, "order 66", &submit(2))).await;
    assert_eq!((other.status.as_u16(), is_replay(&other)), (201, false), "keys are their callers' own");
    let fresh = send(&world, "/v1/jobs", "order 67", &submit(2)).await;
    assert_ne!(fresh.run_key(), first.run_key());
}

#[tokio::test]
async fn a_key_is_for_one_request() {
    let world = World::new().await;
    let job = world.submit("open", 1).await.job;
    send(&world, "/v1/jobs", "k", &submit(2)).await;
    for (path, body) in [
        ("/v1/jobs".to_owned(), submit(3)),
        ("/v1/jobs".to_owned(), format!(" {}", submit(2))),
        ("/v1/jobs?dry_run=false".to_owned(), submit(2)),
        (format!("/v1/jobs/{job}/tasks"), submit(2)),
    ] {
        let refused = send(&world, &path, "k", &body).await;
        assert!(refused.refused(409, "idempotency_key_conflict").contains("another request"), "{path}");
    }
    assert_eq!(jobs(&world).await, 2);
    golden("idempotency_key_conflict", &send(&world, "/v1/jobs", "k", &submit(3)).await.json());
}

#[tokio::test]
async fn a_key_is_printable_and_given_once() {
    let world = World::new().await;
    for bad in ["", "\t", "x\ty", &"x".repeat(256)] {
        let refused = send(&world, "/v1/jobs", bad, &submit(1)).await;
        assert!(refused.refused(400, "invalid_argument").contains("`Idempotency-Key`"), "{bad:?}");
    }
    let mut twice = request("/v1/jobs", KEY, "a", &submit(1));
    twice.headers_mut().append("idempotency-key", "a".parse().unwrap());
    world.send(twice).await.refused(400, "invalid_argument");
    assert_eq!(jobs(&world).await, 0);
    assert_eq!(send(&world, "/v1/jobs", &"x".repeat(255), &submit(1)).await.status, 201);
}

#[tokio::test]
async fn a_refused_request_leaves_its_key_free() {
    let world = World::new().await;
    let bad = json!({"tasks": [{"url": "nonsense"}]}).to_string();
    for _ in 0..2 {
        send(&world, "/v1/jobs", "k", &bad).await.refused(400, "invalid_argument");
    }
    assert_eq!(send(&world, "/v1/jobs", "k", &submit(1)).await.status, 201);
    // Refused by the store, after the claim.
    let job = world.submit("open", 1).await.job;
    world.act(&format!("/v1/jobs/{job}/close")).await;
    let path = format!("/v1/jobs/{job}/tasks");
    send(&world, &path, "a", &submit(1)).await.refused(409, "last_batch_received");
    send(&world, &path, "a", &submit(2)).await.refused(409, "last_batch_received");
}

#[tokio::test]
async fn a_day_later_the_key_is_free_again() {
    let world = World::new().await;
    let first = send(&world, "/v1/jobs", "k", &submit(1)).await.run_key();
    world.pass_ms(24 * 3_600_000 - 1);
    assert_eq!(send(&world, "/v1/jobs", "k", &submit(1)).await.run_key(), first);
    world.pass_ms(1);
    let second = send(&world, "/v1/jobs", "k", &submit(2)).await;
    assert!(!is_replay(&second));
    assert_ne!(second.run_key(), first);
    assert_eq!(send(&world, "/v1/jobs", "k", &submit(2)).await.body, second.body);
}

#[tokio::test]
async fn a_key_is_not_free_by_a_time_that_is_in_doubt() {
    let world = World::new().await;
    let first = send(&world, "/v1/jobs", "k", &submit(1)).await.run_key();
    clock_watch::observe(world.backend.store.as_ref(), world.now()).await.unwrap();
    world.pass_days(60);
    let repeat = send(&world, "/v1/jobs", "k", &submit(1)).await;
    assert_eq!((is_replay(&repeat), repeat.run_key()), (true, first));
    clock_watch::confirm(world.backend.store.as_ref(), world.now()).await.unwrap();
    assert!(!is_replay(&send(&world, "/v1/jobs", "k", &submit(1)).await));
}

/// Fifty at once: one is carried out, and whoever comes later gets its answer.
async fn fifty(world: &World, path: &str, body: &str, status: u16) -> Answer {
    let sent = join_all((0..50).map(|_| {
        let (router, request) = (world.router.clone(), request(path, KEY, "fifty", body));
        tokio::spawn(async move {
            let response = router.oneshot(request).await.unwrap();
            let (parts, body) = response.into_parts();
            let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
            Answer { status: parts.status, headers: parts.headers, body }
        })
    }))
    .await;
    let after = send(world, path, "fifty", body).await;
    assert_eq!((after.status.as_u16(), is_replay(&after)), (status, true), "{}", after.text());
    let mut carried_out = 0;
    for answer in sent {
        let answer = answer.unwrap();
        if answer.status == 409 {
            answer.refused(409, "idempotency_key_conflict");
            continue;
        }
        assert_eq!((answer.status.as_u16(), &answer.body), (status, &after.body));
        carried_out += usize::from(!is_replay(&answer));
    }
    assert_eq!(carried_out, 1);
    after
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_fifty_submits_at_once_one_makes_a_job() {
    let world = World::new().await;
    fifty(&world, "/v1/jobs", &submit(20), 201).await;
    assert_eq!(jobs(&world).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_fifty_submits_of_a_file_at_once_one_makes_a_job() {
    let world = World::new().await;
    let lines: String = (0..30).map(|n| format!("https://site.example/{n}\n")).collect();
    let upload = world.staged(json!({"type": "lines"}), lines).await;
    let body = json!({"file_input_id": upload}).to_string();
    fifty(&world, "/v1/jobs", &body, 201).await;
    assert_eq!(jobs(&world).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_fifty_long_submits_at_once_one_makes_a_job() {
    let world = World::new().await;
    fifty(&world, "/v1/jobs", &submit(12_000), 202).await;
    assert_eq!(jobs(&world).await, 1);
    nothing_is_staged_but(&world, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_fifty_additions_at_once_one_counts() {
    let world = World::new().await;
    let key = world.submit("open", 3).await;
    let body = json!({"tasks": tasks(7), "last_batch": true}).to_string();
    let added = fifty(&world, &format!("/v1/jobs/{}/tasks", key.job), &body, 200).await;
    assert_eq!(added.json()["latest_run"]["stats"]["total"], 10);
    let view = world.backend.store.job(None, key.job).await.unwrap().unwrap();
    assert_eq!(
        (view.latest.as_ref().unwrap().stats.total, view.latest.as_ref().unwrap().run.next_index),
        (10, 10)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_fifty_reruns_at_once_one_begins_a_run() {
    let world = World::new().await;
    let job = world.submit("closed", 3).await.job;
    world.act(&format!("/v1/jobs/{job}/stop")).await;
    let begun = fifty(&world, &format!("/v1/jobs/{job}/rerun"), "", 201).await;
    let runs = world.get(&format!("/v1/jobs/{job}/runs")).await.json();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 2);
    assert_eq!(runs["runs"][0]["run_id"], begun.json()["latest_run"]["run_id"]);
}

/// Drops a request after so many steps; says whether it was answered before that.
async fn broken_off(world: &World, request: Request<Body>, polls: usize) -> bool {
    let mut left = polls;
    let mut future = pin!(world.router.clone().oneshot(request));
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        future.as_mut().poll(context).map(|_| true)
    })
    .await
}

/// Repeats a request, as a caller does that got no answer.
async fn repeated(world: &World, path: &str, key: &str, body: &str) -> Answer {
    let answer = send(world, path, key, body).await;
    if answer.status != 409 {
        return answer;
    }
    answer.refused(409, "idempotency_key_conflict");
    // Whoever had it is gone.
    world.pass_ms(LEASE_MS);
    send(world, path, key, body).await
}

const STEPS_MAX: usize = 2_000;

/// Breaks a request off at every step it has; each is then repeated to its end.
async fn at_every_step(world: &World, path: &str, body: &str, status: u16, one: impl AsyncFn(usize)) {
    for polls in 0..STEPS_MAX {
        let key = format!("step {polls}");
        let answered = broken_off(world, request(path, KEY, &key, body), polls).await;
        let first = repeated(world, path, &key, body).await;
        assert_eq!(first.status, status, "{polls}: {}", first.text());
        let again = send(world, path, &key, body).await;
        assert_eq!((&again.body, is_replay(&again)), (&first.body, true), "{polls}");
        one(polls + 1).await;
        assert!(!answered || is_replay(&first), "{polls}");
        // On a busy machine the store's threads may answer before they are waited for: then this was not all of its steps.
        if answered && polls > 2 {
            return;
        }
    }
    panic!("it never ends");
}

#[tokio::test]
async fn a_submit_that_is_dropped_at_any_await_happens_once() {
    let world = World::new().await;
    let made = async |tries| assert_eq!(jobs(&world).await, tries);
    at_every_step(&world, "/v1/jobs", &submit(2), 201, made).await;
}

#[tokio::test]
async fn a_long_submit_that_is_dropped_at_any_await_happens_once() {
    let world = World::new().await;
    let made = async |tries: usize| assert_eq!(jobs(&world).await, tries.min(50));
    at_every_step(&world, "/v1/jobs", &submit(10_000), 202, made).await;
}

#[tokio::test]
async fn an_addition_that_is_dropped_at_any_await_happens_once() {
    let world = World::new().await;
    let job = world.submit("open", 0).await.job;
    let added = async |tries: usize| assert_eq!(total(&world, job).await as usize, 2 * tries);
    at_every_step(&world, &format!("/v1/jobs/{job}/tasks"), &submit(2), 200, added).await;
}

async fn total(world: &World, job: JobId) -> u32 {
    world.backend.store.job(None, job).await.unwrap().unwrap().latest.as_ref().unwrap().stats.total
}
