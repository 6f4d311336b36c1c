use crate::world::{World, config, golden, problem};
use conveyor_domain::{Format, Outcome, TaskId, limits};
use conveyor_store::port::RunKey;
use serde_json::json;

fn urls(count: usize) -> serde_json::Value {
    json!(vec![json!({"url": "https://a.example"}); count])
}

#[tokio::test]
async fn tasks_are_added_until_the_last_batch() {
    let world = World::new().await;
    let RunKey { job, .. } = world.submit("open", 0).await;
    let path = format!("/v1/jobs/{job}/tasks");
    let added = world.post(&path, json!({"tasks": urls(2)})).await;
    assert_eq!(added.status, 200);
    golden("added", &added.json());
    let last = world.post(&path, json!({"tasks": urls(1), "last_batch": true})).await.json();
    assert_eq!((last["accepted_tasks"].as_u64(), last["job_status"].as_str()), (Some(1), Some("closed")));
    assert_eq!(last["latest_run"]["stats"]["total"], 3);
    assert_eq!(last["latest_run"]["last_batch_received"], true);
    world.post(&path, json!({"tasks": urls(1)})).await.refused(409, "last_batch_received");
    world.act(&format!("/v1/jobs/{job}/stop")).await;
    world.post(&path, json!({"tasks": urls(1)})).await.refused(409, "job_not_open");
}

#[tokio::test]
async fn an_addition_has_limits() {
    let mut config = config();
    config.run_tasks_max = 3;
    let world = World::with(config).await;
    let RunKey { job, .. } = world.submit("open", 2).await;
    let path = format!("/v1/jobs/{job}/tasks");
    world.post(&path, json!({"tasks": urls(2)})).await.refused(429, "quota_exceeded");
    assert_eq!(world.post(&path, json!({"tasks": urls(1)})).await.status, 200);
    let detail = world.post(&path, json!({"tasks": urls(limits::ADD_TASKS_MAX + 1)})).await;
    assert!(detail.refused(413, "too_many_tasks").contains("10000"));
    for body in [json!({}), json!({"tasks": []}), json!({"tasks": null}), json!({"tasks": 7})] {
        assert!(world.post(&path, body).await.refused(400, "invalid_argument").contains("`tasks`"));
    }
    let wrong = json!({"tasks": urls(1), "last_batch": "yes"});
    assert!(world.post(&path, wrong).await.refused(400, "invalid_argument").contains("`last_batch`"));
    let misspelt = json!({"tasks": urls(1), "lastbatch": true});
    let path = format!("{path}?strict=true");
    assert!(world.post(&path, misspelt).await.refused(400, "invalid_argument").contains("`lastbatch`"));
}

#[tokio::test]
async fn added_tasks_are_checked_under_the_jobs_params() {
    let world = World::new().await;
    let body = json!({"status": "open", "zenrows_params": {"js_render": true}});
    let RunKey { job, .. } = world.submitted(body).await;
    let post = json!({"tasks": [{"url": "https://a.example", "method": "POST"}]});
    let answer = world.post(&format!("/v1/jobs/{job}/tasks"), post).await;
    answer.refused(400, "invalid_argument");
    assert_eq!(answer.json()["invalid_tasks"][0]["reason"], "method_param_conflict");
}

#[tokio::test]
async fn every_invalid_task_is_named_and_none_is_stored() {
    let world = World::new().await;
    let body = json!({"tasks": [
        {"url": "https://ok.example"}, {"url": "ftp://user:pass@a.example/?token=1"}, "https://a.example",
        {"url": "https://a.example", "zenrows_params": {"nope": 1}}, {"url": "https://a.example", "body": "x"},
    ]});
    let answer = world.post("/v1/jobs", body).await;
    answer.refused(400, "invalid_argument");
    golden("invalid_tasks", &answer.json());
    assert_eq!(world.get("/v1/jobs").await.json(), json!({"jobs": []}));
}

#[tokio::test]
async fn history_has_each_attempt() {
    let world = World::new().await;
    let key = world.submit("closed", 2).await;
    let retry = Outcome::Retry { problem: problem(), not_before: world.now() };
    world.settle(key, 0, retry).await;
    let RunKey { job, run } = key;
    let task = TaskId::of(run, 0);
    let path = format!("/v1/jobs/{job}/tasks/{task}/history");
    assert_eq!(world.get(&path).await.json()["events"].as_array().unwrap().len(), 1);
    world.pass_ms(1_000);
    world.succeed(key, 0, Format::Html, b"x").await;
    let history = world.get(&path).await;
    assert_eq!(history.status, 200);
    golden("history", &history.json());
    let of_run = world.get(&format!("/v1/jobs/{job}/runs/{run}/tasks/{task}/history")).await;
    assert_eq!(of_run.body, history.body);
    let untouched = TaskId::of(run, 1);
    let none = world.get(&format!("/v1/jobs/{job}/tasks/{untouched}/history")).await;
    assert_eq!(none.json(), json!({"events": []}));
}
