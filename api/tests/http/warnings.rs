//! Unknown fields of bodies (SPEC 10): ignored and named in `warnings`, or refused with `?strict=true`.

use crate::described::{Operation, operations};
use crate::world::{Answer, KEY, OPERATOR_KEY, World, config};
use axum::body::Body;
use axum::http::Request;
use conveyor_domain::{CallerId, limits};
use serde_json::{Value, json};

fn fields(answer: &Answer) -> Vec<String> {
    let warnings = answer.json()["warnings"].clone();
    let warnings = warnings.as_array().cloned().unwrap_or_default();
    assert!(warnings.iter().all(|one| one["code"] == "unknown_field"), "{warnings:?}");
    warnings.iter().map(|one| one["field"].as_str().unwrap().to_owned()).collect()
}

/// Something that each route can be called about.
async fn path_of(world: &World, operation: Operation) -> String {
    let (regular, scheduled) = (
        json!({"status": "open", "tasks": [{"url": "https://a.example"}]}),
        json!({"type": "scheduled", "tasks": [{"url": "https://a.example"}],
               "schedule": {"rate": {"every": 1, "unit": "hour"}}}),
    );
    let body = if operation.path.contains("/schedule") { scheduled } else { regular };
    let job = world.post("/v1/jobs", body).await.json();
    let run = job["latest_run"]["run_id"].as_str().unwrap_or_default();
    let slot = world.slot(json!({"type": "lines", "multipart": true})).await;
    let caller = CallerId::new(world.now(), &world.entropy).to_string();
    let ids = [
        ("{job}", job["job_id"].as_str().unwrap()),
        ("{run}", run),
        ("{upload}", slot["file_input_id"].as_str().unwrap()),
        ("{caller}", &caller),
    ];
    ids.iter().fold(operation.path.to_owned(), |path, (name, id)| path.replace(name, id))
}

#[tokio::test]
async fn every_route_with_a_body_names_what_it_ignores_and_refuses_it_if_asked_to() {
    let world = World::new().await;
    let mut routes = 0;
    for operation in operations().into_iter().filter(|operation| operation.body().is_some()) {
        if !operation.parameters("query").any(|name| name == "strict") {
            continue;
        }
        routes += 1;
        let mut body = operation.body().unwrap().clone();
        body["no_such_field"] = json!({"deeply": [1]});
        let key = if operation.key() == Some("OperatorKey") { OPERATOR_KEY } else { KEY };
        let (method, path) = (operation.method.to_uppercase(), path_of(&world, operation).await);
        let call = async |strict: &str| {
            world.call(&method, &format!("{path}?strict={strict}"), Some(key), Some(body.clone())).await
        };
        let refused = call("true").await.refused(400, "invalid_argument");
        assert_eq!(refused, "`no_such_field` is not a field of this request.", "{path}");
        let ignored = call("false").await;
        assert_eq!(fields(&ignored), ["no_such_field"], "{method} {path}: {:?}", ignored.body);
        call("yes").await.refused(400, "invalid_argument");
    }
    assert_eq!(routes, 16, "every route that takes JSON");
    world.get("/v1/jobs?strict=true").await.refused(400, "invalid_argument");
}

#[tokio::test]
async fn fields_are_named_by_their_paths_and_what_is_known_is_done() {
    let world = World::new().await;
    let body = json!({
        "tasks": [{"url": "https://a.example"}, {"url": "https://b.example", "extrenal_id": "x"}],
        "max_inflght": 1,
        "rate_limit": {"per_second": 5, "brust": 2},
        "domain_limits": {"a.example": {"per_second": 1, "inflight": 1}},
        "retry": {"atempts": 3},
        "metadata": {"free": "names"},
    });
    let answer = world.post("/v1/jobs", body.clone()).await;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    let expected = ["max_inflght", "rate_limit.brust", "retry.atempts", "domain_limits.a.example.inflight"];
    assert_eq!(fields(&answer), [&expected[..], &["tasks[1].extrenal_id"]].concat());
    let job = world.get(&format!("/v1/jobs/{}", answer.run_key().job)).await;
    assert_eq!((&job.json()["max_inflight"], &job.json()["rate_limit"]["burst"]), (&json!(100), &json!(5)));
    assert!(job.json().get("warnings").is_none(), "only the answer to the request that had them");
    assert_eq!(fields(&world.post("/v1/jobs?dry_run=true", body.clone()).await).len(), 5);
    // Refused, the tasks at fault are all named at once, as ever.
    let tasks = json!({"tasks": [{"url": "https://a", "x": 1}, {"url": "https://b", "y": 1}]});
    let strict = world.post("/v1/jobs?strict=true", tasks).await;
    strict.refused(400, "invalid_argument");
    assert_eq!(strict.json()["invalid_tasks"].as_array().unwrap().len(), 2);
    assert!(strict.json().get("warnings").is_none());
}

#[tokio::test]
async fn a_refusal_names_what_was_misspelt() {
    let world = World::new().await;
    let answer = world.post("/v1/jobs", json!({"task": [{"url": "https://a.example"}]})).await;
    answer.refused(400, "invalid_argument");
    assert_eq!(fields(&answer), ["task"]);
    let answer = world.post("/v1/jobs", json!({"tasks": [{"urll": "https://a.example"}]})).await;
    answer.refused(400, "invalid_argument");
    assert_eq!(fields(&answer), ["tasks[0].urll"]);
}

#[tokio::test]
async fn so_many_are_named_and_the_others_counted() {
    let world = World::with(conveyor_api::ApiConfig { inline_tasks_max: 50, ..config() }).await;
    for (count, status) in [(50, 201), (60, 202)] {
        let tasks: Vec<Value> =
            (0..count).map(|n| json!({"url": format!("https://a.example/{n}"), "urll": n})).collect();
        let answer = world.post("/v1/jobs", json!({"tasks": tasks})).await;
        assert_eq!(answer.status, status, "{:?}", answer.body);
        let named = fields(&answer);
        assert_eq!((named.len(), named[0].as_str()), (limits::WARNINGS_MAX, "tasks[0].urll"));
        assert_eq!(answer.json()["more_warnings"], count - limits::WARNINGS_MAX);
        let job = answer.run_key().job;
        let added = world.get(&format!("/v1/jobs/{job}/events")).await.json();
        assert!(added.to_string().len() < 10_000, "what is ignored is not kept");
    }
}

#[tokio::test]
async fn a_repeat_names_what_the_first_answer_named() {
    let world = World::new().await;
    let body = json!({"tasks": [{"url": "https://a.example", "urll": 1}], "nmae": "x"}).to_string();
    let send = async |key: &str| {
        let request = Request::post("/v1/jobs").header("x-api-key", KEY).header("idempotency-key", key);
        world.send(request.header("host", "api.test:8080").body(Body::from(body.clone())).unwrap()).await
    };
    let (first, again) = (send("k").await, send("k").await);
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(again.body, first.body);
    assert_eq!(fields(&again), ["nmae", "tasks[0].urll"]);
}

/// A row is a task whatever else it says, as a line of a CSV is one whatever columns it has; its list says what was ignored.
#[tokio::test]
async fn rows_of_a_staged_list_keep_their_tasks() {
    let world = World::new().await;
    let rows =
        "{\"url\":\"https://a.example\",\"price\":3}\n{\"url\":\"https://b.example\",\"price\":4,\"x\":0}\n";
    let upload = world.staged(json!({"type": "jsonl"}), rows).await;
    let dry = world.post("/v1/jobs?dry_run=true", json!({"file_input_id": upload})).await;
    assert_eq!(
        (&dry.json()["valid"], fields(&dry)),
        (&json!(2), vec!["rows[].price".into(), "rows[].x".into()])
    );
    let answer = world.post("/v1/jobs", json!({"file_input_id": upload})).await;
    assert_eq!(answer.json()["accepted_tasks"], 2, "{:?}", answer.body);
    assert_eq!(fields(&answer), ["rows[].price", "rows[].x"]);
    let key = answer.run_key();
    let ingest = world.get(&format!("/v1/jobs/{}/runs/{}/ingest", key.job, key.run)).await.json();
    let named = |field: &str, rows: u32| json!({"code": "unknown_field", "field": field, "rows": rows});
    assert_eq!(ingest["warnings"], json!([named("price", 2), named("x", 1)]));
    // As a client asks for that wants nothing to be overlooked.
    let upload = world.staged(json!({"type": "jsonl"}), rows).await;
    let strict = world.post("/v1/jobs?strict=true", json!({"file_input_id": upload})).await;
    strict.refused(400, "no_valid_rows");
    assert_eq!(strict.json()["invalid_tasks"][0]["reason"], "malformed_task");
}
