use crate::world::{KEY, World, config, golden};
use axum::body::{Body, Bytes};
use axum::http::Request;
use serde_json::json;
use std::sync::Arc;

fn post(content_type: Option<&str>, body: Body) -> Request<Body> {
    let request = Request::post("/v1/jobs").header("x-api-key", KEY);
    match content_type {
        Some(value) => request.header("content-type", value).body(body).unwrap(),
        None => request.body(body).unwrap(),
    }
}

#[tokio::test]
async fn an_unknown_route_is_a_problem_too() {
    let world = World::new().await;
    for path in ["/", "/v1", "/v2/jobs", "/v1/jobs/", "/v1/uploads", "/favicon.ico"] {
        world.get(path).await.refused(404, "not_found");
    }
    golden("not_found", &world.get("/nowhere").await.json());
}

#[tokio::test]
async fn a_method_that_is_not_there_names_those_that_are() {
    let world = World::new().await;
    for (method, path, allowed) in [
        ("PATCH", "/v1/jobs", vec!["GET", "HEAD", "POST"]),
        ("PUT", "/v1/jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV", vec!["DELETE", "GET", "HEAD", "PATCH"]),
        ("BREW", "/healthz", vec!["GET", "HEAD"]),
        ("POST", "/v1/content/a/b/c", vec!["GET", "HEAD"]),
    ] {
        let answer = world.call(method, path, Some(KEY), None).await;
        answer.refused(405, "method_not_allowed");
        let mut allow: Vec<&str> = answer.header("allow").split(',').map(str::trim).collect();
        allow.sort_unstable();
        assert_eq!(allow, allowed, "{method} {path}");
    }
}

#[tokio::test]
async fn a_body_that_is_not_json_is_refused() {
    let world = World::new().await;
    let json = Some("application/json");
    let detail = world.send(post(json, Body::from("{\"tasks\": ["))).await.refused(400, "malformed_json");
    assert_eq!(detail, "The body is not JSON: line 1, column 11.");
    world.send(post(json, Body::empty())).await.refused(400, "malformed_json");
    world.send(post(json, Body::from("[]"))).await.refused(400, "invalid_argument");
    world.send(post(Some("text/csv"), Body::from("{}"))).await.refused(415, "unsupported_media_type");
    // Who does not say what it is means JSON.
    world.send(post(None, Body::from("[]"))).await.refused(400, "invalid_argument");
    let tasks = json!({"tasks": [{"url": "https://site.example/"}]}).to_string();
    assert_eq!(world.send(post(None, Body::from(tasks))).await.status, 201);
}

#[tokio::test]
async fn a_body_over_the_limit_is_not_read_to_its_end() {
    let mut config = config();
    config.max_body_bytes = 1_000;
    let world = World::with(config).await;
    let json = Some("application/json");
    let whole = Body::from(format!("{{\"name\": \"{}\"}}", "x".repeat(1_000)));
    world.send(post(json, whole)).await.refused(413, "body_too_large");
    // Endless and without a length: only counting while reading ends this.
    let endless = futures::stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(&[b' '; 100])));
    world.send(post(json, Body::from_stream(endless))).await.refused(413, "body_too_large");
}

#[tokio::test]
async fn too_many_tasks_are_told_from_too_many_bytes() {
    let mut config = config();
    config.run_tasks_max = 3;
    let world = World::with(config).await;
    let tasks = |count| json!({"tasks": vec![json!({"url": "https://a.example"}); count]});
    assert_eq!(world.post("/v1/jobs", tasks(3)).await.status, 201);
    let answer = world.post("/v1/jobs", tasks(4)).await;
    assert!(answer.refused(413, "too_many_tasks").contains("more than 3"));
}

#[tokio::test]
async fn parameters_that_a_route_does_not_know_are_named() {
    let world = World::new().await;
    let key = world.submit("closed", 1).await;
    for path in [
        "/v1/jobs".to_owned(),
        format!("/v1/jobs/{}", key.job),
        format!("/v1/jobs/{}/runs", key.job),
        format!("/v1/jobs/{}/results", key.job),
    ] {
        let detail = world.get(&format!("{path}?limitt=5")).await.refused(400, "invalid_argument");
        assert!(detail.contains("`limitt`"), "{detail}");
    }
    for (query, name) in [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=x", "limit"),
        ("limit=1&limit=2", "limit"),
        ("status=done", "status"),
    ] {
        let answer = world.get(&format!("/v1/jobs/{}/results?{query}", key.job)).await;
        assert!(answer.refused(400, "invalid_argument").contains(&format!("`{name}`")), "{query}");
    }
    world.get("/v1/jobs?limit=101").await.refused(400, "invalid_argument");
    world.get("/v1/jobs?type=odd").await.refused(400, "invalid_argument");
    for list in ["jobs?limit=1".to_owned(), format!("jobs/{}/results?limit=1", key.job)] {
        let empty = world.get(&format!("/v1/{list}&cursor=")).await;
        assert_eq!(empty.json(), world.get(&format!("/v1/{list}")).await.json(), "the first page");
    }
    world.get("/v1/jobs?cursor=AAAA").await.refused(400, "invalid_cursor");
}

#[tokio::test]
async fn a_path_that_cannot_be_read_is_not_found() {
    let world = World::new().await;
    for path in ["/v1/jobs/%ff", "/v1/jobs/01arz3ndektsv4rrffq69g5fav", "/v1/jobs/x/runs/y/results"] {
        world.get(path).await.refused(404, "not_found");
    }
}

#[tokio::test]
async fn job_params_are_named() {
    let world = World::new().await;
    let with = |params| json!({"tasks": [{"url": "https://a.example"}], "zenrows_params": params});
    let answer = world.post("/v1/jobs", with(json!({"nope": 1}))).await;
    assert!(answer.refused(400, "invalid_argument").contains("`nope`: unknown_param"));
    let answer = world.post("/v1/jobs", with(json!({"js_render": "maybe"}))).await;
    assert!(answer.refused(400, "invalid_argument").contains("`js_render`: invalid_param_value"));
}

#[tokio::test]
async fn a_panic_is_an_answer() {
    let world = World::with_metrics(config(), Arc::new(|| panic!("hunter2"))).await;
    let detail = world.get("/metrics").await.refused(500, "internal");
    assert!(!detail.contains("hunter2"));
    assert_eq!(world.get("/healthz").await.status, 200, "and the process goes on");
}

#[tokio::test]
async fn the_request_id_is_the_callers_if_it_is_fit() {
    let world = World::new().await;
    let with =
        |id: &'static str| Request::get("/nowhere").header("x-request-id", id).body(Body::empty()).unwrap();
    assert_eq!(world.send(with("trace-7.a_B")).await.header("x-request-id"), "trace-7.a_B");
    assert_eq!(world.send(with("not fit")).await.header("x-request-id").len(), 26);
}
