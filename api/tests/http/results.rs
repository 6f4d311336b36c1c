use crate::world::{World, config, golden, problem};
use conveyor_domain::{Command, Format, Outcome, TaskInput, limits};
use conveyor_store::port::RunKey;
use serde_json::{Value, json};

fn urls(page: &Value) -> Vec<&str> {
    page["results"].as_array().unwrap().iter().map(|row| row["url"].as_str().unwrap()).collect()
}

/// A run with one task of each kind: successful, failed, waiting for a retry, being worked on, untouched.
async fn mixed(world: &World) -> RunKey {
    let body = json!({"tasks": [
        {"url": "https://a.example/0", "external_id": "first", "metadata": {"k": "v"}},
        {"url": "https://a.example/1", "method": "post", "body": {"secret": 1}},
        {"url": "https://a.example/2"}, {"url": "https://a.example/3"}, {"url": "https://a.example/4"},
    ]});
    let key = world.submitted(body).await;
    world.succeed(key, 0, Format::Markdown, b"# one").await;
    world.fail(key, 1).await;
    let later = world.now().after(limits::RETRY_CAP);
    world.settle(key, 2, Outcome::Retry { problem: problem(), not_before: later }).await;
    world.claim(key, 3).await;
    key
}

#[tokio::test]
async fn a_row_shows_what_became_of_its_task() {
    let world = World::new().await;
    let RunKey { job, run } = mixed(&world).await;
    let answer = world.get(&format!("/v1/jobs/{job}/results")).await;
    assert_eq!(answer.status, 200);
    golden("results", &answer.json());
    let url = answer.json()["results"][0]["result_url"].as_str().unwrap().to_owned();
    assert!(url.starts_with(&format!("http://api.test:8080/v1/content/{job}/{run}/00000000")), "{url}");
    let same = world.get(&format!("/v1/jobs/{job}/runs/{run}/results")).await;
    assert_eq!(same.json(), answer.json());
}

#[tokio::test]
async fn results_are_filtered_by_status() {
    let world = World::new().await;
    let RunKey { job, .. } = mixed(&world).await;
    let with =
        async |status: &str| world.get(&format!("/v1/jobs/{job}/results?status={status}")).await.json();
    assert_eq!(urls(&with("successful").await), ["https://a.example/0"]);
    assert_eq!(urls(&with("failed").await), ["https://a.example/1"]);
    let unfinished = ["https://a.example/2", "https://a.example/3", "https://a.example/4"];
    assert_eq!(urls(&with("processing").await), unfinished);
    assert_eq!(urls(&with("all").await).len(), 5);
}

/// The URLs of every page of a list of results.
async fn pages(world: &World, base: &str) -> Vec<Vec<String>> {
    let (mut path, mut pages) = (base.to_owned(), Vec::new());
    loop {
        let page = world.get(&path).await.json();
        pages.push(urls(&page).into_iter().map(str::to_owned).collect::<Vec<_>>());
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("{base}&cursor={cursor}");
    }
    pages
}

/// A page looks at so many rows, and says that more follow, though it is empty.
#[tokio::test]
async fn a_filtered_page_ends_when_it_has_looked_far_enough() {
    let world = World::new().await;
    let key = world.submit("open", 1).await;
    let far = 2 * limits::LOOK_ROWS_MAX;
    let input = TaskInput::from_url("https://site.example/far").unwrap();
    world.backend.store.put_tasks(key, vec![(far, input)], world.now()).await.unwrap();
    world.succeed(key, far, Format::Html, b"far").await;
    let pages = pages(&world, &format!("/v1/jobs/{}/results?status=successful", key.job)).await;
    assert_eq!(pages, [vec![], vec![], vec!["https://site.example/far".to_owned()]]);
}

#[tokio::test]
async fn pages_together_are_the_list() {
    let world = World::new().await;
    let RunKey { job, run } = world.submit("closed", 7).await;
    let base = format!("/v1/jobs/{job}/results");
    let seen = pages(&world, &format!("{base}?limit=3")).await.concat();
    let all: Vec<String> = (0..7).map(|i| format!("https://site.example/{i}")).collect();
    assert_eq!(seen, all);

    let first = world.get(&format!("{base}?limit=3")).await.json();
    let cursor = first["next_cursor"].as_str().unwrap();
    let also = world.get(&format!("/v1/jobs/{job}/runs/{run}/results?limit=1&cursor={cursor}")).await;
    assert_eq!(urls(&also.json()), ["https://site.example/3"]);
    world.get(&format!("{base}?status=failed&cursor={cursor}")).await.refused(400, "invalid_cursor");
    world.get(&format!("/v1/jobs?cursor={cursor}")).await.refused(400, "invalid_cursor");
    let other = world.submit("closed", 7).await.job;
    world.get(&format!("/v1/jobs/{other}/results?cursor={cursor}")).await.refused(400, "invalid_cursor");
    world.pass_ms(i64::try_from(limits::CURSOR_TTL.as_millis()).unwrap());
    world.get(&format!("{base}?cursor={cursor}")).await.refused(400, "invalid_cursor");
}

#[tokio::test]
async fn result_urls_start_with_the_public_url() {
    let mut config = config();
    config.public_url = Some("https://batch.example.com/".into());
    let world = World::with(config).await;
    let RunKey { job, run } = mixed(&world).await;
    let page = world.get(&format!("/v1/jobs/{job}/results?limit=1")).await.json();
    let url = page["results"][0]["result_url"].as_str().unwrap();
    assert!(url.starts_with(&format!("https://batch.example.com/v1/content/{job}/{run}/")), "{url}");
}

#[tokio::test]
async fn what_settles_after_a_stop_is_still_shown() {
    let world = World::new().await;
    let key = world.submit("closed", 2).await;
    world.succeed(key, 0, Format::Html, b"x").await;
    world.apply(key.job, Command::Stop).await;
    let page = world.get(&format!("/v1/jobs/{}/results", key.job)).await.json();
    let statuses: Vec<&Value> =
        page["results"].as_array().unwrap().iter().map(|row| &row["status"]).collect();
    assert_eq!(statuses, ["successful", "pending"]);
}

#[tokio::test]
async fn heavy_rows_make_shorter_pages_and_none_is_left_out() {
    let world = World::new().await;
    let metadata: serde_json::Map<_, _> =
        (0..20).map(|i| (format!("key{i}"), json!("x".repeat(1_000)))).collect();
    let tasks: Vec<_> =
        (0..400).map(|i| json!({"url": format!("https://site.example/{i}"), "metadata": metadata})).collect();
    let RunKey { job, .. } = world.submitted(json!({ "tasks": tasks })).await;
    let pages = pages(&world, &format!("/v1/jobs/{job}/results?limit=1000")).await;
    assert!(pages.len() > 1, "one answer of {} rows", pages[0].len());
    let all: Vec<String> = (0..400).map(|i| format!("https://site.example/{i}")).collect();
    assert_eq!(pages.concat(), all);
}
