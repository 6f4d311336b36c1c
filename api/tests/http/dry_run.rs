//! Submits that are only thought through (SPEC 6.23).

use crate::world::{OTHER_KEY, World, config, golden};
use conveyor_api::ApiConfig;
use conveyor_domain::{Command, Format};
use serde_json::{Value, json};

const DRY: &str = "/v1/jobs?dry_run=true";

fn urls(urls: &[&str]) -> Value {
    urls.iter().map(|url| json!({ "url": url })).collect()
}

async fn dry(world: &World, body: Value) -> Value {
    let answer = world.post(DRY, body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(world.get("/v1/jobs").await.json(), json!({"jobs": []}), "nothing is made");
    answer.json()
}

#[tokio::test]
async fn an_inline_list_is_thought_through() {
    let world = World::new().await;
    let list = ["https://a.example/1", "https://b.example/", "https://a.example/1", "ftp://c.example/", "x"];
    let limits = json!({"a.example": {"max_inflight": 1}});
    let report = dry(&world, json!({"tasks": urls(&list), "domain_limits": limits})).await;
    golden("dry_run", &report);
    assert_eq!((&report["rows"], &report["valid"], &report["duplicates"]), (&json!(5), &json!(3), &json!(1)));
    assert_eq!(report["would_answer"], 400);
    assert_eq!(report["estimate"]["bound_by"], "domain_limits");
    let good = dry(&world, json!({"tasks": urls(&list[..2])})).await;
    assert_eq!((&good["would_answer"], &good["invalid_tasks"]), (&json!(201), &json!([])));
}

#[tokio::test]
async fn rows_with_another_body_are_no_duplicates() {
    let world = World::new().await;
    let post = |body: Value| json!({"url": "https://a.example/", "method": "POST", "body": body});
    let get = json!({"url": "https://a.example/"});
    let tasks = json!([get, post(json!("a")), post(json!("b")), post(json!({"a": 1})), post(json!("a"))]);
    assert_eq!(dry(&world, json!({ "tasks": tasks })).await["duplicates"], 1);
}

#[tokio::test]
async fn a_long_inline_list_leaves_nothing_behind() {
    let world = World::new().await;
    let mut tasks: Vec<Value> =
        (0..10_500).map(|n| json!({"url": format!("https://site{}.example/{n}", n % 30)})).collect();
    tasks[10_001] = json!({"url": "nonsense"});
    let report = dry(&world, json!({ "tasks": tasks })).await;
    assert_eq!((&report["rows"], &report["valid"]), (&json!(10_500), &json!(10_499)));
    assert_eq!(
        report["invalid_tasks"],
        json!([{"index": 10_001, "reason": "malformed_url", "value": "nonsense"}])
    );
    assert_eq!((&report["domains"]["count"], &report["domains"]["exact"]), (&json!(30), &json!(true)));
    assert_eq!(report["domains"]["top"].as_array().unwrap().len(), 20);
    assert_eq!(report["would_answer"], 400);
    assert_eq!(world.objects_under("uploads"), 0);
    tasks.remove(10_001);
    assert_eq!(dry(&world, json!({ "tasks": tasks })).await["would_answer"], 202);
    let schedule = json!({"rate": {"every": 1, "unit": "hour"}});
    let scheduled = json!({"type": "scheduled", "schedule": schedule, "tasks": tasks});
    assert_eq!(dry(&world, scheduled).await["would_answer"], 201, "its runs read the list");
}

/// They are sealed where they are put aside, and a sealed text is no object of headers.
#[tokio::test]
async fn headers_of_a_long_inline_list_are_what_was_sent() {
    let world = World::new().await;
    let task = |n| {
        let headers = json!({"custom_headers": {"Cookie": format!("c-{n}")}});
        json!({"url": format!("https://site.example/{n}"), "zenrows_params": headers})
    };
    let tasks: Vec<Value> = (0..10_001).map(task).collect();
    let report = dry(&world, json!({ "tasks": tasks })).await;
    assert_eq!((&report["valid"], &report["would_answer"]), (&json!(10_001), &json!(202)), "{report}");
}

#[tokio::test]
async fn a_staged_list_is_read_to_its_end_and_not_claimed() {
    let world = World::new().await;
    let lines: String = (0..12_000).map(|n| format!("https://site.example/{}\n", n / 2)).collect();
    let upload = world.staged(json!({"type": "lines"}), format!("{lines}nonsense\n")).await;
    for (policy, answer) in [("skip", 202), ("fail", 400)] {
        let body = json!({"file_input_id": upload, "on_invalid_rows": policy});
        let report = dry(&world, body).await;
        assert_eq!((&report["rows"], &report["duplicates"]), (&json!(12_001), &json!(6_000)));
        assert_eq!(report["invalid_tasks"][0]["line"], 12_001);
        assert_eq!(report["would_answer"], answer, "{policy}");
    }
    let slot = world.get(&format!("/v1/job_inputs/{upload}")).await.json();
    assert_eq!(slot["status"], "uploaded", "nothing was made of it");
    assert_eq!(world.post("/v1/jobs", json!({"file_input_id": upload})).await.status, 202);
}

#[tokio::test]
async fn a_short_staged_list_would_be_written_at_once() {
    let world = World::new().await;
    let upload = world.staged(json!({"type": "lines"}), "https://a.example/\nnonsense\n").await;
    for (policy, answer) in [("skip", 201), ("fail", 400)] {
        let body = json!({"file_input_id": upload, "on_invalid_rows": policy});
        assert_eq!(dry(&world, body.clone()).await["would_answer"], answer);
        let refused = answer == 400;
        let real = world.post("/v1/jobs", body).await;
        assert_eq!(real.status, answer, "as it said: {}", real.text());
        if !refused {
            let job = real.run_key().job;
            world.call("DELETE", &format!("/v1/jobs/{job}"), Some(crate::world::KEY), None).await;
            break;
        }
    }
}

/// What tasks of this caller took, and of nobody else.
#[tokio::test]
async fn an_estimate_is_what_tasks_took_lately() {
    let world = World::new().await;
    let assumes = async |world: &World| {
        let tasks = urls(&["https://a.example/1", "https://a.example/2"]);
        world.post(DRY, json!({"tasks": tasks, "max_inflight": 1})).await.json()["estimate"].clone()
    };
    let nothing = json!({"seconds_per_task": 2.0, "basis": "nothing_measured", "attempts_per_task": 1, "max_inflight": 1});
    assert_eq!(assumes(&world).await["assumes"], nothing);
    let key = world.submit("closed", 3).await;
    assert_eq!(assumes(&world).await["assumes"]["basis"], "nothing_measured", "none of it is done");
    // Each takes 250 ms.
    world.succeed(key, 0, Format::Html, b"x").await;
    world.fail(key, 1).await;
    world.submit("closed", 1).await;
    let measured = assumes(&world).await;
    assert_eq!(
        (&measured["assumes"]["basis"], &measured["assumes"]["measured_tasks"]),
        (&json!("measured"), &json!(2))
    );
    assert_eq!((&measured["assumes"]["seconds_per_task"], &measured["seconds"]), (&json!(0.25), &json!(0.5)));
    let tasks = json!({"tasks": urls(&["https://a.example/"])});
    let other = world.call("POST", DRY, Some(OTHER_KEY), Some(tasks)).await.json();
    assert_eq!(other["estimate"]["assumes"]["basis"], "nothing_measured");
    let built_in = World::with(ApiConfig { built_in_gateway: true, ..config() }).await;
    assert_eq!(assumes(&built_in).await["assumes"]["basis"], "built_in_gateway");
}

/// It is the latest that its job had, and what it inherited is still counted.
#[tokio::test]
async fn a_run_that_is_gone_does_not_fail_a_dry_run() {
    let world = World::new().await;
    let key = world.submit("closed", 2).await;
    world.succeed(key, 0, Format::Html, b"x").await;
    world.apply(key.job, Command::Stop).await;
    let again = world.act(&format!("/v1/jobs/{}/rerun?status=pending", key.job)).await;
    assert_eq!(again.json()["inherited_tasks"], 1);
    let again = again.run_key();
    world.apply(key.job, Command::Stop).await;
    assert_eq!(world.delete_run(again).await.status, 202);
    for removed in [false, true] {
        if removed {
            world.remove_run(again).await;
        }
        let report = world.post(DRY, json!({"tasks": urls(&["https://a.example/"])})).await;
        assert_eq!(report.status, 200, "{}", report.text());
        assert_eq!(report.json()["estimate"]["assumes"]["basis"], "nothing_measured");
    }
}

#[tokio::test]
async fn what_is_no_submit_is_no_dry_run() {
    let world = World::new().await;
    let tasks = || urls(&["https://a.example/"]);
    world.post("/v1/jobs?dry_run=maybe", json!({"tasks": tasks()})).await.refused(400, "invalid_argument");
    world.post(DRY, json!({"tasks": tasks(), "max_inflight": 0})).await.refused(400, "invalid_argument");
    world.post(DRY, json!({"tasks": []})).await.refused(400, "invalid_argument");
    let plain = json!({"tasks": tasks(), "webhook": {"url": "http://a.example/"}});
    world.post(DRY, plain).await.refused(400, "callback_url_must_be_https");
    let nowhere = json!({"file_input_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"});
    world.post(DRY, nowhere).await.refused(404, "file_input_not_found");
    let slot = world.slot(json!({"type": "lines"})).await;
    let empty = json!({"file_input_id": slot["file_input_id"]});
    world.post(DRY, empty).await.refused(409, "file_input_not_uploaded");
    let broken = world.staged(json!({"type": "lines"}), &b"\x1f\x8b\x08broken"[..]).await;
    let answer = world.post(DRY, json!({ "file_input_id": broken })).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
}
