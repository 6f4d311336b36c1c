//! How many requests a caller may send (SPEC 6.24).

use crate::world::{Answer, KEY, OPERATOR_KEY, OTHER_KEY, World, config};
use conveyor_api::ApiConfig;
use conveyor_domain::RequestRate;
use serde_json::json;

async fn limited(per_second: u32, burst: u32) -> World {
    World::with(ApiConfig { requests: RequestRate::new(per_second, burst), ..config() }).await
}

fn told(answer: &Answer) -> [&str; 3] {
    ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"].map(|name| answer.header(name))
}

#[tokio::test]
async fn every_answer_says_how_the_bucket_stands_and_too_many_are_refused_first() {
    let world = limited(2, 3).await;
    assert_eq!(told(&world.get("/v1/jobs").await), ["3", "2", "1"]);
    assert_eq!(told(&world.get("/v1/jobs/nothing").await), ["3", "1", "1"], "whatever is answered");
    assert_eq!(told(&world.call("PUT", "/v1/jobs", Some(KEY), None).await), ["3", "0", "2"]);
    let refused = world.post("/v1/jobs", json!({"tasks": [{"url": "https://a.example/"}]})).await;
    refused.refused(429, "rate_limited");
    assert_eq!(told(&refused), ["3", "0", "2"]);
    assert_eq!(refused.header("retry-after"), "1");
    // Others have their own.
    assert_eq!(told(&world.call("GET", "/v1/jobs", Some(OTHER_KEY), None).await)[1], "2");
    assert_eq!(told(&world.operate("GET", "keys", None).await)[1], "2");
    world.pass_ms(500);
    let jobs = world.get("/v1/jobs").await;
    assert_eq!(
        (jobs.status.as_u16(), jobs.json()["jobs"].as_array().unwrap().len()),
        (200, 0),
        "it was not made"
    );
}

#[tokio::test]
async fn what_has_no_known_key_is_not_counted() {
    let world = limited(1, 1).await;
    for key in [None, Some("no key of anybody")] {
        for _ in 0..3 {
            let answer = world.call("GET", "/v1/jobs", key, None).await;
            answer.refused(401, "unauthenticated");
            assert_eq!(told(&answer), ["", "", ""]);
        }
    }
    for _ in 0..3 {
        assert_eq!(world.call("GET", "/healthz", None, None).await.status, 200);
    }
}

#[tokio::test]
async fn a_callers_key_at_a_route_of_operators_counts_too() {
    let world = limited(1, 2).await;
    let path = "/v1/admin/keys";
    assert_eq!(told(&world.call("GET", path, Some(KEY), None).await), ["2", "1", "1"]);
    assert_eq!(world.get("/v1/jobs").await.status, 200);
    world.call("GET", path, Some(KEY), None).await.refused(429, "rate_limited");
    assert_eq!(world.call("GET", path, Some(OPERATOR_KEY), None).await.status, 200);
}

#[tokio::test]
async fn no_rate_is_no_limit() {
    let world = limited(0, 1).await;
    for _ in 0..5 {
        let answer = world.get("/v1/jobs").await;
        assert_eq!((answer.status.as_u16(), told(&answer)), (200, ["", "", ""]));
    }
}
