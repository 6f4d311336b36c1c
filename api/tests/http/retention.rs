//! For how long things can be seen (SPEC 6.16): a matter of the time alone.

use crate::world::{KEY, World, config};
use conveyor_domain::{Command, Format, TaskId};
use conveyor_store::clock_watch;
use conveyor_store::port::RunKey;
use serde_json::{Value, json};

/// A completed run of two tasks: one successful, one failed.
async fn completed(world: &World, more: Value) -> RunKey {
    let mut body = json!({"tasks": [{"url": "https://a.example/0"}, {"url": "https://a.example/1"}]});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    let key = world.submitted(body).await;
    world.succeed(key, 0, Format::Markdown, b"# one").await;
    world.fail(key, 1).await;
    world.apply(key.job, Command::Drained).await;
    key
}

fn task(key: RunKey, index: u32, what: &str) -> String {
    format!("/v1/jobs/{}/tasks/{}/{what}", key.job, TaskId::of(key.run, index))
}

async fn statuses(world: &World, key: RunKey, query: &str) -> Vec<String> {
    let page = world.get(&format!("/v1/jobs/{}/results{query}", key.job)).await.json();
    let status = |row: &Value| row["status"].as_str().unwrap().to_owned();
    page["results"].as_array().unwrap().iter().map(status).collect()
}

#[tokio::test]
async fn a_result_past_its_time_is_expired_and_its_row_stays() {
    let world = World::new().await;
    let key = completed(&world, json!({})).await;
    assert_eq!(statuses(&world, key, "").await, ["successful", "failed"]);
    world.pass_days(15);
    assert_eq!(statuses(&world, key, "").await, ["expired", "failed"]);
    assert_eq!(statuses(&world, key, "?status=successful").await, ["expired"], "it was successful");
    let row = world.get(&format!("/v1/jobs/{}/results", key.job)).await.json()["results"][0].clone();
    assert_eq!((row.get("result_url"), &row["type"]), (None, &json!("markdown")), "{row}");
    world.get(&task(key, 0, "content")).await.refused(410, "result_expired");
    let in_run = format!("/v1/jobs/{}/runs/{}/tasks/{}/content", key.job, key.run, TaskId::of(key.run, 0));
    world.get(&in_run).await.refused(410, "result_expired");
    world.get(&task(key, 1, "content")).await.refused(422, "http_404");
    assert_eq!(world.get(&task(key, 0, "history")).await.status, 200);
    let refused = world.get(&format!("/v1/jobs/{}/results?status=expired", key.job)).await;
    refused.refused(400, "invalid_argument");
    let stats = world.get(&format!("/v1/jobs/{}", key.job)).await.json()["latest_run"]["stats"].clone();
    assert_eq!((&stats["successful"], &stats["failed"]), (&json!(1), &json!(1)), "what was counted stays");
}

#[tokio::test]
async fn tasks_of_a_run_that_ended_long_ago_are_gone_and_what_was_counted_is_not() {
    let world = World::new().await;
    let key = completed(&world, json!({"result_ttl_days": 30})).await;
    let list = world.accepted().await;
    world.apply(list.job, Command::Stop).await;
    let rejected = format!("/v1/jobs/{}/runs/{}/ingest/rejected", list.job, list.run);
    world.pass_days(29);
    assert_eq!(statuses(&world, key, "").await, ["successful", "failed"]);
    assert_eq!(world.get(&rejected).await.status, 200);
    world.pass_days(2);
    let results = format!("/v1/jobs/{}/results", key.job);
    let of_run = format!("/v1/jobs/{}/runs/{}/results", key.job, key.run);
    for path in
        [results, of_run, task(key, 0, "content"), task(key, 1, "content"), task(key, 0, "history"), rejected]
    {
        world.get(&path).await.refused(410, "result_expired");
    }
    let run = world.get(&format!("/v1/jobs/{}/runs/{}", key.job, key.run)).await;
    assert_eq!((run.status.as_u16(), &run.json()["stats"]["completed"]), (200, &json!(2)));
    let log = format!("/v1/jobs/{}/runs/{}/ingest", list.job, list.run);
    assert_eq!(world.get(&log).await.status, 200, "how the list was read is an event, and stays");
}

/// The clock jumps by 60 days, and nobody has confirmed that.
#[tokio::test]
async fn nothing_is_past_its_time_while_the_clock_is_in_doubt() {
    let world = World::new().await;
    let key = completed(&world, json!({})).await;
    let exports = format!("/v1/jobs/{}/runs/{}/exports", key.job, key.run);
    let exported = async |format: &str| {
        let started = world.call("POST", &exports, Some(KEY), Some(json!({"format": format}))).await;
        assert_eq!(started.status, 202, "{}", started.text());
        world.build_exports().await;
        world.get(started.header("location")).await
    };
    let url_of = |export: &Value| {
        export["download_url"]
            .as_str()
            .map(|url| url.strip_prefix("http://api.test:8080").unwrap().to_owned())
    };
    exported("zip").await;
    clock_watch::observe(world.backend.store.as_ref(), world.now()).await.unwrap();
    world.pass_days(60);
    assert_eq!(statuses(&world, key, "").await, ["successful", "failed"]);
    assert_eq!(world.get(&task(key, 0, "content")).await.text(), "# one");
    assert_eq!(world.get(&task(key, 1, "history")).await.status, 200);
    assert_eq!(world.get(&exports).await.json()["exports"].as_array().unwrap().len(), 1);
    let rows = exported("jsonl").await.json();
    let rows = world.call("GET", &url_of(&rows).unwrap(), None, None).await.text();
    assert!(rows.contains(r#""status":"successful""#) && rows.lines().count() == 2, "{rows}");
    let zip = exported("zip").await.json();
    assert_eq!(zip["progress"]["tasks_done"], 1);
    let zip = world.call("GET", &url_of(&zip).unwrap(), None, None).await;
    assert_eq!(zip::ZipArchive::new(std::io::Cursor::new(zip.body)).unwrap().len(), 1);

    clock_watch::confirm(world.backend.store.as_ref(), world.now()).await.unwrap();
    world.get(&format!("/v1/jobs/{}/results", key.job)).await.refused(410, "result_expired");
    world.get(&task(key, 0, "content")).await.refused(410, "result_expired");
    world.get(&task(key, 1, "history")).await.refused(410, "result_expired");
    assert_eq!(world.get(&exports).await.json()["exports"].as_array().unwrap().len(), 2, "made since");
}

#[tokio::test]
async fn a_job_says_for_how_long_and_keeps_what_was_the_default() {
    let mut config = config();
    config.result_ttl_days = 3;
    let world = World::with(config).await;
    let shown = async |key: RunKey| {
        world.get(&format!("/v1/jobs/{}", key.job)).await.json()["result_ttl_days"].clone()
    };
    let by_default = completed(&world, json!({})).await;
    let chosen = completed(&world, json!({"result_ttl_days": 1})).await;
    let staged = world.accepted().await;
    assert_eq!((shown(by_default).await, shown(chosen).await), (json!(3), json!(1)));
    assert_eq!(shown(staged).await, 3);
    let fixed = world.backend.store.job(None, by_default.job).await.unwrap().unwrap();
    assert_eq!(fixed.job.spec.result_ttl_days, Some(3), "another default would not change it");
    world.pass_days(1);
    assert_eq!(statuses(&world, chosen, "?status=successful").await, ["expired"]);
    assert_eq!(statuses(&world, by_default, "?status=successful").await, ["successful"]);
    for bad in [json!(0), json!(31), json!("14"), json!(1.5), json!(-1)] {
        let body = json!({"tasks": [{"url": "https://a.example"}], "result_ttl_days": bad});
        let detail = world.post("/v1/jobs", body).await.refused(400, "invalid_argument");
        assert_eq!(detail, "`result_ttl_days` must be a number from 1 to 30.", "{bad}");
    }
    let change = json!({"result_ttl_days": 5});
    let path = format!("/v1/jobs/{}", chosen.job);
    world.call("PATCH", &path, Some(KEY), Some(change)).await.refused(400, "invalid_argument");
}

#[tokio::test]
async fn a_result_url_ends_with_the_time_of_its_result() {
    let world = World::new().await;
    let key = completed(&world, json!({"result_ttl_days": 1})).await;
    let signed = async || {
        let page = world.get(&format!("/v1/jobs/{}/results?status=successful", key.job)).await.json();
        let url = page["results"][0]["result_url"].as_str().unwrap().to_owned();
        url.strip_prefix("http://api.test:8080").unwrap().to_owned()
    };
    let minute_ms = 60_000;
    world.pass_ms(24 * 60 * minute_ms - 30 * minute_ms);
    let url = signed().await;
    assert_eq!(world.call("GET", &url, None, None).await.status, 200);
    world.pass_ms(29 * minute_ms);
    assert_eq!(world.call("GET", &url, None, None).await.status, 200);
    world.pass_ms(minute_ms);
    world.call("GET", &url, None, None).await.refused(403, "signature_invalid");
}

/// On some stores rows go by themselves, one by one: nobody is to see which of them did.
#[tokio::test]
async fn tasks_that_ended_long_ago_are_gone_although_their_run_goes_on() {
    let world = World::new().await;
    let key = world.submit("open", 2).await;
    world.succeed(key, 0, Format::Html, b"x").await;
    world.pass_days(31);
    assert_eq!(statuses(&world, key, "").await, ["pending"]);
    for what in ["content", "history"] {
        world.get(&task(key, 0, what)).await.refused(410, "result_expired");
    }
    world.get(&task(key, 1, "content")).await.refused(409, "task_not_ready");
    world.get(&task(key, 2, "content")).await.refused(404, "not_found");
    let stats = world.get(&format!("/v1/jobs/{}", key.job)).await.json()["latest_run"]["stats"].clone();
    assert_eq!((&stats["total"], &stats["successful"]), (&json!(2), &json!(1)), "what was counted stays");
}
