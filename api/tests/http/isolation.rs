//! SPEC 3.9: another caller's id answers exactly like an unknown one.

use crate::world::{Answer, KEY, OTHER_KEY, World};
use conveyor_domain::params::Format;
use conveyor_domain::{JobId, RunId, TaskId};
use conveyor_store::port::RunKey;
use serde_json::{Value, json};

/// Every route below a job, with a body where one is read.
fn routes(key: RunKey) -> Vec<(&'static str, String, Option<Value>)> {
    let RunKey { job, run } = key;
    let task = TaskId::of(run, 0);
    let base = format!("/v1/jobs/{job}");
    let in_run = format!("{base}/runs/{run}");
    vec![
        ("GET", base.clone(), None),
        ("DELETE", base.clone(), None),
        ("POST", format!("{base}/tasks"), Some(json!({"tasks": [{"url": "https://a.example"}]}))),
        ("POST", format!("{base}/tasks"), Some(json!({"nonsense": true}))),
        ("POST", format!("{base}/close"), None),
        ("POST", format!("{base}/stop"), None),
        ("POST", format!("{base}/cancel"), None),
        ("PATCH", base.clone(), Some(json!({"max_inflight": 1}))),
        ("PATCH", base.clone(), Some(json!({"nonsense": true}))),
        ("POST", format!("{base}/pause"), None),
        ("POST", format!("{base}/resume"), None),
        ("GET", format!("{base}/limits"), None),
        ("GET", format!("{base}/webhook"), None),
        ("PUT", format!("{base}/webhook"), Some(json!({"url": "https://127.0.0.1/", "signature": false}))),
        ("PUT", format!("{base}/webhook"), Some(json!({"nonsense": true}))),
        ("DELETE", format!("{base}/webhook"), None),
        ("GET", format!("{base}/deliveries"), None),
        ("GET", format!("{base}/deliveries/{run}"), None),
        ("POST", format!("{base}/deliveries/{run}/replay"), None),
        ("POST", format!("{base}/rerun"), None),
        ("GET", format!("{base}/events"), None),
        ("GET", format!("{in_run}/ingest"), None),
        ("GET", format!("{in_run}/ingest/rejected"), None),
        ("GET", format!("{base}/runs"), None),
        ("GET", in_run.clone(), None),
        ("DELETE", in_run.clone(), None),
        ("GET", format!("{in_run}/audit"), None),
        ("GET", format!("{base}/results"), None),
        ("GET", format!("{in_run}/results"), None),
        ("GET", format!("{base}/tasks/{task}/content"), None),
        ("GET", format!("{in_run}/tasks/{task}/content"), None),
        ("GET", format!("{base}/tasks/{task}/history"), None),
        ("GET", format!("{in_run}/tasks/{task}/history"), None),
    ]
}

/// Everything that a caller can see of an answer, without what differs between any two.
fn visible(answer: &Answer) -> (u16, Vec<(String, String)>, Value) {
    let mut body = answer.json();
    body["instance"] = Value::Null;
    let headers = answer.headers.iter().filter(|(name, _)| *name != "x-request-id");
    let headers =
        headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
    (answer.status.as_u16(), headers, body)
}

#[tokio::test]
async fn anothers_job_is_not_there() {
    let world = World::new().await;
    let mine = world.submit("open", 1).await;
    world.succeed(mine, 0, Format::Html, b"x").await;
    let unknown =
        RunKey { job: JobId::new(world.now(), &world.entropy), run: RunId::new(world.now(), &world.entropy) };
    for ((method, theirs, body), (_, nobodys, _)) in routes(mine).into_iter().zip(routes(unknown)) {
        let theirs = world.call(method, &theirs, Some(OTHER_KEY), body.clone()).await;
        theirs.refused(404, "not_found");
        let nobodys = world.call(method, &nobodys, Some(OTHER_KEY), body).await;
        assert_eq!(visible(&theirs), visible(&nobodys), "{method}");
    }
    let malformed = world.call("GET", "/v1/jobs/not-an-id", Some(OTHER_KEY), None).await;
    let unknown = world.call("GET", &format!("/v1/jobs/{}", unknown.job), Some(OTHER_KEY), None).await;
    assert_eq!(visible(&malformed), visible(&unknown));
    let listed = world.call("GET", "/v1/jobs", Some(OTHER_KEY), None).await;
    assert_eq!(listed.json(), json!({"jobs": []}));
    let shown = world.get(&format!("/v1/jobs/{}", mine.job)).await.json();
    assert_eq!(shown["status"], "open", "nothing that the other tried happened");
}

#[tokio::test]
async fn a_cursor_is_of_no_use_to_another() {
    let world = World::new().await;
    for _ in 0..2 {
        world.submit("closed", 1).await;
    }
    let page = world.get("/v1/jobs?limit=1").await.json();
    let path = format!("/v1/jobs?cursor={}", page["next_cursor"].as_str().unwrap());
    world.call("GET", &path, Some(OTHER_KEY), None).await.refused(400, "invalid_cursor");
    assert_eq!(world.call("GET", &path, Some(KEY), None).await.status, 200);
}

#[tokio::test]
async fn without_a_key_nothing_shows() {
    let world = World::new().await;
    let mine = world.submit("open", 1).await;
    let mut all = routes(mine);
    all.push(("POST", "/v1/jobs".into(), Some(json!({"nonsense": true}))));
    all.push(("GET", "/v1/jobs?nonsense=1".into(), None));
    all.push(("PATCH", "/v1/jobs".into(), None));
    all.push(("POST", "/v1/job_inputs".into(), Some(json!({"nonsense": true}))));
    all.push(("GET", "/v1/job_inputs".into(), None));
    all.push(("GET", "/v1/leases".into(), None));
    all.push(("GET", "/v1/jobs/not-an-id".into(), None));
    for (method, path, body) in all {
        for key in [None, Some("an-unknown-key-00000"), Some("")] {
            world.call(method, &path, key, body.clone()).await.refused(401, "unauthenticated");
        }
        let in_query = format!("{path}{}api_key={KEY}", if path.contains('?') { '&' } else { '?' });
        world.call(method, &in_query, None, body).await.refused(401, "unauthenticated");
    }
}

#[tokio::test]
async fn a_run_belongs_to_its_job() {
    let world = World::new().await;
    let (one, two) = (world.submit("closed", 1).await, world.submit("closed", 1).await);
    for rest in ["", "/results"] {
        world.get(&format!("/v1/jobs/{}/runs/{}{rest}", one.job, two.run)).await.refused(404, "not_found");
    }
}
