//! What a caller may have at once (SPEC 6.24).

use crate::ingest::cut;
use crate::world::{Answer, KEY, OTHER_KEY, World, config, golden};
use conveyor_api::ApiConfig;
use conveyor_domain::{Command, Format, KeyHash, Quotas};
use conveyor_store::port::RunKey;
use futures::future::join_all;
use serde_json::{Value, json};

async fn limited(quotas: Quotas) -> World {
    World::with(ApiConfig { quotas, ..config() }).await
}

fn active(limit: u32) -> Quotas {
    Quotas { active_jobs: Some(limit), ..Quotas::default() }
}

fn tasks(limit: u64) -> Quotas {
    Quotas { queued_tasks: Some(limit), ..Quotas::default() }
}

fn list(count: usize) -> Value {
    json!((0..count).map(|i| json!({"url": format!("https://site.example/{i}")})).collect::<Vec<_>>())
}

fn body(status: &str, count: usize) -> Value {
    match count {
        0 => json!({"status": status}),
        count => json!({"status": status, "tasks": list(count)}),
    }
}

async fn submit(world: &World, key: &str, body: Value) -> Answer {
    world.call("POST", "/v1/jobs", Some(key), Some(body)).await
}

async fn caller_path(world: &World) -> String {
    let caller = world.backend.store.caller_of(KeyHash::of(KEY)).await.unwrap().unwrap();
    format!("callers/{caller}")
}

async fn usage(world: &World) -> Value {
    world.operate("GET", &caller_path(world).await, None).await.json()["usage"].clone()
}

#[tokio::test]
async fn of_twenty_who_submit_at_once_as_many_are_let_in_as_there_is_room_for() {
    let world = limited(active(5)).await;
    let answers = join_all((0..20).map(|_| submit(&world, KEY, body("closed", 2)))).await;
    let made = answers.iter().filter(|answer| answer.status == 201).count();
    assert_eq!(made, 5, "{:?}", answers.iter().map(|answer| answer.status).collect::<Vec<_>>());
    for refused in answers.iter().filter(|answer| answer.status != 201) {
        let detail = refused.refused(429, "quota_exceeded");
        assert!(detail.contains("`active_jobs` is 5: 5 are used"), "{detail}");
        assert!(refused.header("retry-after").is_empty(), "waiting does not help");
    }
    assert_eq!(usage(&world).await["active_jobs"], 5);
    assert_eq!(
        submit(&world, OTHER_KEY, body("closed", 1)).await.status,
        201,
        "another caller's are its own"
    );
}

#[tokio::test]
async fn a_job_that_ends_makes_room_at_once() {
    let world = limited(active(1)).await;
    for command in [Command::Stop, Command::Delete] {
        let key = world.submit("closed", 1).await;
        submit(&world, KEY, body("closed", 1)).await.refused(429, "quota_exceeded");
        world.apply(key.job, command).await;
    }
    // What is refused for another reason holds nothing.
    submit(&world, KEY, json!({"tasks": [{"url": "nowhere"}]})).await.refused(400, "invalid_argument");
    world.submit("closed", 1).await;
}

#[tokio::test]
async fn queued_tasks_count_until_they_are_done_however_they_came() {
    let world = limited(tasks(10)).await;
    let first = world.submit("open", 6).await;
    let detail = submit(&world, KEY, body("closed", 5)).await.refused(429, "quota_exceeded");
    assert!(detail.contains("`queued_tasks` is 10: 6 are used, and 5 more"), "{detail}");
    let add = async |count| {
        world.post(&format!("/v1/jobs/{}/tasks", first.job), json!({"tasks": list(count)})).await
    };
    add(5).await.refused(429, "quota_exceeded");
    assert_eq!(add(4).await.status, 200);
    add(1).await.refused(429, "quota_exceeded");
    world.succeed(first, 0, Format::Html, b"x").await;
    world.fail(first, 1).await;
    assert_eq!(usage(&world).await, json!({"active_jobs": 1, "scheduled_jobs": 0, "queued_tasks": 8}));
    assert_eq!(submit(&world, KEY, body("closed", 2)).await.status, 201);
    add(1).await.refused(429, "quota_exceeded");
    world.apply(first.job, Command::Stop).await;
    assert_eq!(submit(&world, KEY, body("closed", 8)).await.status, 201);
}

#[tokio::test]
async fn tasks_that_are_added_at_once_are_let_in_one_by_one() {
    let world = limited(tasks(11)).await;
    let key = world.submit("open", 1).await;
    let path = format!("/v1/jobs/{}/tasks", key.job);
    let answers = join_all((0..8).map(|_| world.post(&path, json!({"tasks": list(3)})))).await;
    let added = answers.iter().filter(|answer| answer.status == 200).count();
    assert!((1..=3).contains(&added), "{added}");
    assert_eq!(usage(&world).await["queued_tasks"], 1 + 3 * added);
    while usage(&world).await["queued_tasks"].as_u64().unwrap() < 10 {
        assert_eq!(world.post(&path, json!({"tasks": list(3)})).await.status, 200, "there is room");
    }
    world.post(&path, json!({"tasks": list(3)})).await.refused(429, "quota_exceeded");
}

#[tokio::test]
async fn a_long_list_counts_whole_before_it_is_read() {
    let world = limited(tasks(25_000)).await;
    let answer = submit(&world, KEY, body("closed", 12_000)).await;
    assert_eq!(answer.status, 202);
    assert_eq!(usage(&world).await["queued_tasks"], 12_000);
    world.pass_ms(10 * 60_000);
    assert_eq!(usage(&world).await["queued_tasks"], 12_000, "for as long as that takes");
    assert_eq!(submit(&world, KEY, body("closed", 13_000)).await.status, 202);
    submit(&world, KEY, body("closed", 1)).await.refused(429, "quota_exceeded");
    world.apply(answer.run_key().job, Command::Stop).await;
    assert_eq!(submit(&world, KEY, body("closed", 9_000)).await.status, 201);
}

#[tokio::test]
async fn an_uploaded_list_counts_with_all_of_its_rows() {
    let world = limited(tasks(5)).await;
    let lines = |n: usize| (0..n).map(|i| format!("https://a.example/{i}\n")).collect::<String>();
    let short = world.staged(json!({"type": "lines"}), lines(6)).await;
    // Read on the request: its rows are known.
    world.post("/v1/jobs", json!({"file_input_id": short})).await.refused(429, "quota_exceeded");
    let long = world.staged(json!({"type": "lines"}), lines(12_000)).await;
    world.post("/v1/jobs", json!({"file_input_id": long})).await.refused(429, "quota_exceeded");
}

#[tokio::test]
async fn a_callers_own_quotas_go_before_the_servers_and_change_at_once() {
    let world = limited(active(1)).await;
    world.submit("closed", 1).await;
    submit(&world, KEY, body("closed", 1)).await.refused(429, "quota_exceeded");
    let path = caller_path(&world).await;
    let changed = world.operate("PATCH", &path, Some(json!({"active_jobs": 2, "queued_tasks": 3}))).await;
    golden("caller", &changed.json());
    world.submit("closed", 1).await;
    submit(&world, KEY, body("closed", 1)).await.refused(429, "quota_exceeded");
    let changed = world.operate("PATCH", &path, Some(json!({"active_jobs": 0, "queued_tasks": null}))).await;
    assert_eq!(changed.json()["quotas"], json!({"active_jobs": 0}));
    let detail = submit(&world, KEY, body("open", 0)).await.refused(429, "quota_exceeded");
    assert!(detail.contains("`active_jobs` is 0: 2 are used"), "{detail}");
    let changed = world.operate("PATCH", &path, Some(json!({"active_jobs": null}))).await;
    assert_eq!(changed.json()["quotas"], json!({"active_jobs": 1}), "what the server was started with");
    for bad in
        [json!({}), json!({"active_jobs": "many"}), json!({"active_jobs": 10_001}), json!({"tasks": 1})]
    {
        world.operate("PATCH", &path, Some(bad)).await.refused(400, "invalid_argument");
    }
    world.operate("GET", "callers/nobody", None).await.refused(404, "not_found");
}

#[tokio::test]
async fn without_quotas_nothing_is_held() {
    let world = World::new().await;
    join_all((0..20).map(|_| submit(&world, KEY, body("closed", 1)))).await;
    let caller = world.backend.store.caller_of(KeyHash::of(KEY)).await.unwrap().unwrap();
    let key = conveyor_domain::RecordKey::new(conveyor_domain::RecordKind::Quotas, caller, "quotas");
    assert_eq!(world.backend.store.record(&key).await.unwrap(), None);
}

#[tokio::test]
async fn a_rerun_is_let_in_like_a_submit() {
    let world = limited(active(1)).await;
    let first = world.submit("closed", 1).await;
    world.fail(first, 0).await;
    world.apply(first.job, Command::Stop).await;
    let second = world.submit("closed", 1).await;
    let rerun = format!("/v1/jobs/{}/rerun", first.job);
    world.act(&rerun).await.refused(429, "quota_exceeded");
    world.apply(second.job, Command::Stop).await;
    assert_eq!(world.act(&rerun).await.status, 201);
    submit(&world, KEY, body("closed", 1)).await.refused(429, "quota_exceeded");
}

/// Nobody has read its rows, and yet it is known how many there are.
#[tokio::test]
async fn a_rerun_of_a_template_needs_room_for_all_of_its_tasks() {
    let world = limited(tasks(5)).await;
    let schedule = json!({"rate": {"every": 1, "unit": "hour"}});
    let made =
        world.post("/v1/jobs", json!({"type": "scheduled", "schedule": schedule, "tasks": list(6)})).await;
    let job = made.json()["job_id"].as_str().unwrap().to_owned();
    world.pass_ms(3_600_000);
    assert_eq!(world.operate("POST", "reconcile", Some(json!({"job_id": job}))).await.status, 200);
    let latest = world.get(&format!("/v1/jobs/{job}")).await.json()["latest_run"].clone();
    assert_eq!(latest["stats"]["total"], 6, "of a fire nobody asks");
    let key = RunKey { job: job.parse().unwrap(), run: latest["run_id"].as_str().unwrap().parse().unwrap() };
    world.apply(key.job, Command::Stop).await;
    world.ingest(key, &[cut(0)]).await;
    let rerun = format!("/v1/jobs/{job}/rerun");
    let detail = world.act(&rerun).await.refused(429, "quota_exceeded");
    assert!(detail.contains("`queued_tasks` is 5: 0 are used, and 6 more"), "{detail}");
    world.operate("PATCH", &caller_path(&world).await, Some(json!({"queued_tasks": 6}))).await;
    assert_eq!(world.act(&rerun).await.status, 202);
    assert_eq!(usage(&world).await["queued_tasks"], 6);
}
