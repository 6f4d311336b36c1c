//! Inline lists of any length (SPEC 6.10): the body of a submit is taken apart as it arrives.

use crate::world::{Answer, KEY, World, config};
use axum::body::{Body, Bytes};
use axum::http::Request;
use conveyor_domain::{IngestEvent, IngestState, limits};
use conveyor_store::port::Reader;
use serde_json::{Value, json};

fn task(n: usize) -> String {
    format!("{{\"url\": \"https://site.example/{n}\",\n \"external_id\": \"id-{n}\"}}")
}

/// The text of a submit, with fields before and behind its tasks.
fn body(tasks: impl Iterator<Item = String>, behind: &str) -> String {
    format!("{{\"name\": \"long\", \"tasks\": [{}]{behind}}}", tasks.collect::<Vec<_>>().join(", "))
}

/// Sends a body in pieces, without a length, as a client that streams does.
async fn stream(world: &World, text: String) -> Answer {
    let pieces: Vec<_> =
        text.as_bytes().chunks(8_191).map(Bytes::copy_from_slice).map(Ok::<_, std::io::Error>).collect();
    let request =
        Request::post("/v1/jobs").header("x-api-key", KEY).header("content-type", "application/json");
    let body = Body::from_stream(futures::stream::iter(pieces));
    world.send(request.body(body).unwrap()).await
}

#[tokio::test]
async fn fewer_than_ten_thousand_are_written_on_the_request() {
    let world = World::new().await;
    let answer = stream(&world, body((0..limits::INLINE_TASKS_MAX).map(task), "")).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["accepted_tasks"]), (201, &json!(9_999)));
    assert_eq!(answer.json()["latest_run"].get("ingest_status"), None);
    assert_eq!(world.get("/v1/job_inputs").await.json(), json!({"job_inputs": []}));
}

#[tokio::test]
async fn ten_thousand_are_staged_checked_and_accepted() {
    let world = World::new().await;
    for (status, behind) in [("closed", ""), ("open", ", \"status\": \"open\", \"external_id\": \"e\"")] {
        let answer = stream(&world, body((0..10_000).map(task), behind)).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        let json = answer.json();
        assert_eq!((&json["accepted_tasks"], &json["status"]), (&json!(10_000), &json!(status)));
        assert_eq!(json["latest_run"]["ingest_status"], "pending");
        assert_eq!(answer.header("retry-after"), "1");
        let key = answer.run_key();
        assert_eq!(world.get(&format!("/v1/jobs/{}", key.job)).await.json()["name"], "long");

        let log = world.backend.store.ingest(key, Reader::Role).await.unwrap().unwrap().log;
        let IngestEvent::Accepted { source } = &log[0].event else { panic!("{log:?}") };
        let key_of_list = source.staged.object.parse().unwrap();
        let list = world.backend.blobs.get(&key_of_list, 0, source.staged.size).await.unwrap();
        let rows: Vec<Value> = list
            .split(|b| *b == b'\n')
            .filter(|l| !l.is_empty())
            .map(|l| serde_json::from_slice(l).unwrap())
            .collect();
        assert_eq!(rows.len(), 10_000, "a task a line");
        assert_eq!(rows[9_999], json!({"url": "https://site.example/9999", "external_id": "id-9999"}));
        assert!(IngestState::fold(&log).is_ok());
        if status == "open" {
            let tasks = json!({"tasks": [{"url": "https://a.example"}]});
            let added = world.post(&format!("/v1/jobs/{}/tasks", key.job), tasks).await;
            added.refused(409, "run_not_terminal");
        }
    }
}

/// A server that writes up to three tasks on the request.
async fn small() -> World {
    let mut config = config();
    config.inline_tasks_max = 3;
    World::with(config).await
}

#[tokio::test]
async fn the_operator_decides_how_many_are_written_on_the_request() {
    let world = small().await;
    for (count, status) in [(2, 201), (3, 201), (4, 202)] {
        let inline = stream(&world, body((0..count).map(task), "")).await;
        let staged = staged(&world, count).await;
        let by_upload = world.post("/v1/jobs", json!({"file_input_id": staged})).await;
        for answer in [inline, by_upload] {
            assert_eq!(answer.status, status, "{count}: {}", answer.text());
            let json = answer.json();
            assert_eq!(json["accepted_tasks"], count);
            let ingest = json["latest_run"].get("ingest_status");
            assert_eq!(ingest, (status == 202).then_some(&json!("pending")), "{count}");
        }
    }
}

#[tokio::test]
async fn a_dry_run_and_a_rerun_follow_the_same_threshold() {
    let world = small().await;
    for (count, status) in [(2, 201), (3, 201), (4, 202)] {
        let tasks: Vec<_> = (0..count).map(|n| json!({"url": format!("https://a.example/{n}")})).collect();
        let upload = staged(&world, count).await;
        for submit in [json!({"tasks": tasks}), json!({"file_input_id": upload})] {
            let report = world.post("/v1/jobs?dry_run=true", submit).await.json();
            assert_eq!(report["would_answer"], status, "{count}: {report}");
        }
        // Tasks that are added are always written on the request, so the run exists whatever its length.
        let job = world.submit("open", 0).await.job;
        let all = json!({"tasks": tasks, "last_batch": true});
        assert_eq!(world.post(&format!("/v1/jobs/{job}/tasks"), all).await.status, 200);
        world.act(&format!("/v1/jobs/{job}/stop")).await;
        let again = world.act(&format!("/v1/jobs/{job}/rerun")).await;
        assert_eq!(again.status, status, "{count}: {}", again.text());
    }
}

/// Stages a list of lines, and answers its id.
async fn staged(world: &World, count: usize) -> String {
    let lines: String = (0..count).map(|n| format!("https://a.example/{n}\n")).collect();
    world.staged(json!({"type": "lines"}), lines.into_bytes()).await
}

/// Nothing of a refused submit is left: no job, no upload, no object.
async fn nothing_is_left(world: &World) {
    assert_eq!(world.get("/v1/jobs").await.json(), json!({"jobs": []}));
    assert_eq!(world.get("/v1/job_inputs").await.json(), json!({"job_inputs": []}));
    assert_eq!(world.objects_under("uploads"), 0);
}

#[tokio::test]
async fn an_invalid_task_refuses_all_of_them() {
    let world = World::new().await;
    let long = format!("{{\"url\": \"{}\"}}", "x".repeat(limits::TASK_JSON_MAX_BYTES));
    let tasks = (0..12_000).map(|n| match n {
        7 => "\"https://a.example\"".to_owned(),
        11_000 => long.clone(),
        11_999 => "{\"url\": \"ftp://a.example\"}".to_owned(),
        n => task(n),
    });
    let answer = stream(&world, body(tasks, "")).await;
    assert_eq!(answer.refused(400, "invalid_argument"), "`tasks`: 3 of 12000 are invalid.");
    let named = answer.json()["invalid_tasks"].clone();
    let of =
        |n: usize| (named[n]["index"].as_u64().unwrap(), named[n]["reason"].as_str().unwrap().to_owned());
    assert_eq!(of(0), (7, "malformed_task".into()));
    assert_eq!(of(1), (11_000, "malformed_task".into()));
    assert_eq!(of(2), (11_999, "unsupported_scheme".into()));
    nothing_is_left(&world).await;
}

#[tokio::test]
async fn every_task_invalid_is_counted_but_not_named() {
    let world = World::new().await;
    let answer = stream(&world, body((0..10_050).map(|_| "7".to_owned()), "")).await;
    assert_eq!(answer.refused(400, "invalid_argument"), "`tasks`: 10050 of 10050 are invalid.");
    assert_eq!(answer.json()["invalid_tasks"].as_array().unwrap().len(), limits::INVALID_TASKS_MAX);
}

#[tokio::test]
async fn what_is_wrong_behind_the_tasks_refuses_them_too() {
    let world = World::new().await;
    for (behind, status, code) in [
        (", \"tasks\": []", 400, "invalid_argument"),
        (", \"zenrows_params\": {\"nope\": 1}", 400, "invalid_argument"),
        (", \"webhook\": {}", 400, "invalid_argument"),
        (", \"file_input_id\": \"01ARZ3NDEKTSV4RRFFQ69G5FAV\"", 400, "invalid_argument"),
        (", ", 400, "malformed_json"),
        ("} {", 400, "malformed_json"),
    ] {
        let answer = stream(&world, body((0..10_000).map(task), behind)).await;
        answer.refused(status, code);
    }
    let text = body((0..10_000).map(task), "");
    let lines = text.matches('\n').count() + 1;
    let cut = stream(&world, text[..text.len() - 20].to_owned()).await;
    assert!(cut.refused(400, "malformed_json").contains(&format!("line {lines},")));
    nothing_is_left(&world).await;
}

#[tokio::test]
async fn params_behind_the_tasks_count_for_them() {
    let world = World::new().await;
    let tasks = (0..10_000).map(|_| "{\"url\": \"https://a.example\", \"method\": \"POST\"}".to_owned());
    let answer = stream(&world, body(tasks, ", \"zenrows_params\": {\"js_render\": true}")).await;
    assert!(answer.refused(400, "invalid_argument").contains("10000 of 10000"));
    assert_eq!(answer.json()["invalid_tasks"][0]["reason"], "method_param_conflict");
}

#[tokio::test]
async fn long_lists_have_limits() {
    let mut config = config();
    config.run_tasks_max = 10_500;
    config.list_max_bytes = 800_000;
    let world = World::with(config).await;
    let tasks = |n| body((0..n).map(task), "");
    assert!(tasks(10_500).len() < 800_000);
    assert_eq!(stream(&world, tasks(10_500)).await.status, 202);
    let stored = world.objects_under("uploads");
    stream(&world, tasks(10_501)).await.refused(413, "too_many_tasks");
    let padded = format!("{}{}", tasks(10_000), " ".repeat(800_000));
    stream(&world, padded).await.refused(413, "source_too_large");
    let much = format!(", \"name\": \"{}\"", "x".repeat(limits::SUBMIT_REST_MAX_BYTES));
    stream(&world, body((0..1).map(task), &much)).await.refused(413, "body_too_large");
    assert_eq!(world.objects_under("uploads"), stored);
    let announced =
        Request::post("/v1/jobs").header("x-api-key", KEY).header("content-type", "application/json");
    let announced = announced.header("content-length", (1u64 << 40).to_string()).body(Body::empty()).unwrap();
    world.send(announced).await.refused(413, "body_too_large");
}

#[tokio::test]
async fn a_body_that_breaks_off_leaves_nothing() {
    let world = World::new().await;
    let text = body((0..11_000).map(task), "");
    let pieces = vec![
        Ok(Bytes::from(text[..text.len() / 2 + 200_000].to_owned())),
        Ok(Bytes::new()),
        Err(std::io::Error::other("reset")),
    ];
    let request =
        Request::post("/v1/jobs").header("x-api-key", KEY).header("content-type", "application/json");
    let request = request.body(Body::from_stream(futures::stream::iter(pieces))).unwrap();
    world.send(request).await.refused(400, "invalid_argument");
    nothing_is_left(&world).await;
}
