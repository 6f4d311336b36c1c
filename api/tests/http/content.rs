use crate::world::{KEY, World, config};
use conveyor_domain::{Format, Outcome, ResultRef, TaskId, limits};
use conveyor_store::port::{BlobKey, RunKey};
use std::time::Duration;

/// The path and query of the first result URL of a job.
async fn signed(world: &World, key: RunKey) -> String {
    let page = world.get(&format!("/v1/jobs/{}/results?status=successful", key.job)).await.json();
    let url = page["results"][0]["result_url"].as_str().unwrap().to_owned();
    url.strip_prefix("http://api.test:8080").unwrap().to_owned()
}

fn content(key: RunKey, index: u32) -> String {
    format!("/v1/jobs/{}/tasks/{}/content", key.job, TaskId::of(key.run, index))
}

#[tokio::test]
async fn a_body_is_the_same_by_every_way() {
    let world = World::new().await;
    let key = world.submit("closed", 1).await;
    world.succeed(key, 0, Format::Html, b"<h1>hi</h1>").await;
    let task = TaskId::of(key.run, 0);
    let signed = signed(&world, key).await;
    let ways = [
        (content(key, 0), Some(KEY)),
        (format!("/v1/jobs/{}/runs/{}/tasks/{task}/content", key.job, key.run), Some(KEY)),
        (signed, None),
    ];
    for (path, api_key) in ways {
        let answer = world.call("GET", &path, api_key, None).await;
        assert_eq!((answer.status.as_u16(), &answer.body[..]), (200, &b"<h1>hi</h1>"[..]));
        let head = world.call("HEAD", &path, api_key, None).await;
        assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
        for answer in [answer, head] {
            assert_eq!(answer.header("content-type"), "text/html; charset=utf-8");
            assert_eq!(answer.header("content-length"), "11");
            assert_eq!(answer.header("x-content-type-options"), "nosniff");
            assert_eq!(answer.header("content-security-policy"), "sandbox");
            assert_eq!(answer.header("content-disposition"), "inline");
            assert_eq!(answer.header("cache-control"), "no-store");
        }
    }
}

#[tokio::test]
async fn the_type_is_that_of_the_tasks_format() {
    let world = World::new().await;
    let key = world.submit("closed", 2).await;
    world.succeed(key, 0, Format::Pdf, b"%PDF").await;
    assert_eq!(world.get(&content(key, 0)).await.header("content-type"), "application/pdf");
    let empty = ResultRef::empty(Format::Json, 204);
    world.settle(key, 1, Outcome::Successful(empty)).await;
    let answer = world.get(&content(key, 1)).await;
    assert_eq!((answer.status.as_u16(), answer.body.len()), (200, 0));
    assert_eq!(answer.header("content-type"), "application/json");
}

#[tokio::test]
async fn a_task_without_a_body_says_why() {
    let world = World::new().await;
    let key = world.submit("closed", 3).await;
    world.get(&content(key, 0)).await.refused(409, "task_not_ready");
    world.claim(key, 0).await;
    world.get(&content(key, 0)).await.refused(409, "task_not_ready");
    world.fail(key, 1).await;
    let failed = world.get(&content(key, 1)).await;
    assert_eq!(failed.refused(422, "http_404"), "The target answered 404.");
    assert_eq!(failed.json()["status"], 404, "the task's own problem");
    let gone = BlobKey::job_prefix(key.job).to_string() + "/runs/x";
    let result = ResultRef { object: Some(gone), length: 1, ..ResultRef::empty(Format::Html, 200) };
    world.settle(key, 2, Outcome::Successful(result)).await;
    world.get(&content(key, 2)).await.refused(410, "result_expired");
}

#[tokio::test]
async fn a_body_that_is_not_what_was_written_is_never_answered_with_200() {
    let world = World::new().await;
    let key = world.submit("closed", 4).await;
    for index in 0..4 {
        world.succeed(key, index, Format::Html, b"<h1>what was written</h1>").await;
    }
    let results = world.get(&format!("/v1/jobs/{}/results", key.job)).await.json();
    world.change_body(key, 0, |bytes| bytes[7] ^= 0x20).await;
    world.change_body(key, 1, |bytes| bytes.truncate(20)).await;
    // Another body of the same object.
    world.change_body(key, 2, |bytes| bytes[0] ^= 0x20).await;
    world.change_body(key, 3, |bytes| bytes.clear()).await;
    for index in 0..4 {
        let task = TaskId::of(key.run, index);
        let signed = results["results"][index as usize]["result_url"].as_str().unwrap();
        let signed = signed.strip_prefix("http://api.test:8080").unwrap().to_owned();
        for (path, api_key) in [
            (content(key, index), Some(KEY)),
            (format!("/v1/jobs/{}/runs/{}/tasks/{task}/content", key.job, key.run), Some(KEY)),
            (signed, None),
        ] {
            let answer = world.call("GET", &path, api_key, None).await;
            if index == 2 {
                assert_eq!(
                    (answer.status.as_u16(), answer.text()),
                    (200, "<h1>what was written</h1>".into())
                );
                continue;
            }
            let detail = answer.refused(410, "result_damaged");
            assert!(detail.contains(&task.to_string()) && detail.contains("rerun"), "{detail}");
            assert_eq!(world.call("HEAD", &path, api_key, None).await.status, 410);
        }
    }
}

#[tokio::test]
async fn a_body_of_an_earlier_version_is_served_as_it_is() {
    let world = World::new().await;
    let key = world.submit("closed", 1).await;
    let object: BlobKey = format!("jobs/{}/runs/{}/results/x", key.job, key.run).parse().unwrap();
    world.backend.blobs.put(&object, "body".into()).await.unwrap();
    let stored =
        format!(r#"{{"object":"{object}","offset":1,"length":3,"format":"html","http_status":200}}"#);
    let result: ResultRef = serde_json::from_str(&stored).unwrap();
    assert_eq!(serde_json::to_string(&result).unwrap(), stored);
    world.settle(key, 0, Outcome::Successful(result)).await;
    assert_eq!(world.get(&content(key, 0)).await.text(), "ody");
}

#[tokio::test]
async fn stored_nonsense_is_damage_and_stays_inside() {
    let world = World::new().await;
    let key = world.submit("closed", 1).await;
    let object = Some("../../etc/passwd".to_owned());
    let result = ResultRef { object, length: 1, ..ResultRef::empty(Format::Html, 200) };
    world.settle(key, 0, Outcome::Successful(result)).await;
    let detail = world.get(&content(key, 0)).await.refused(410, "result_damaged");
    assert!(!detail.contains("passwd") && !detail.contains("object"), "{detail}");
}

#[tokio::test]
async fn a_result_url_is_good_for_as_long_as_an_operator_decides() {
    for (ttl, expires) in [(limits::RESULT_URL_TTL, "T02:00:00"), (Duration::from_secs(60), "T00:01:00")] {
        let mut config = config();
        config.result_url_ttl = ttl;
        let world = World::with(config).await;
        let key = world.submit("closed", 2).await;
        world.succeed(key, 0, Format::Html, b"x").await;
        let page = world.get(&format!("/v1/jobs/{}/results", key.job)).await.json();
        let row = &page["results"][0];
        // It begins 250 ms later; a URL is good for whole seconds.
        assert!(row["result_url_expires_at"].as_str().unwrap().contains(expires), "{row}");
        assert!(page["results"][1].get("result_url_expires_at").is_none(), "without a URL");
        let url = signed(&world, key).await;
        world.pass(ttl - Duration::from_millis(251));
        assert_eq!(world.call("GET", &url, None, None).await.status, 200);
        world.pass_ms(1);
        world.call("GET", &url, None, None).await.refused(403, "signature_invalid");
    }
}

#[tokio::test]
async fn a_result_url_cannot_be_bent() {
    let world = World::new().await;
    let key = world.submit("closed", 2).await;
    world.succeed(key, 0, Format::Html, b"x").await;
    world.succeed(key, 1, Format::Html, b"y").await;
    let good = signed(&world, key).await;
    let (path, query) = good.split_once('?').unwrap();
    let other = path.replace(&TaskId::of(key.run, 0).to_string(), &TaskId::of(key.run, 1).to_string());
    let (expires, signature) = query.rsplit_once('&').unwrap();
    for bad in [
        path.to_owned(),
        format!("{path}?{expires}"),
        format!("{path}?{signature}"),
        format!("{path}?{expires}0&{signature}"),
        format!("{path}?{expires}&{signature}A"),
        format!("{other}?{query}"),
    ] {
        world.call("GET", &bad, None, None).await.refused(403, "signature_invalid");
    }
    world.call("GET", &format!("{good}&x=1"), None, None).await.refused(400, "invalid_argument");
    world
        .call("GET", &good.replace("/v1/content/", "/v1/content/x"), None, None)
        .await
        .refused(404, "not_found");
    world.pass_ms(i64::try_from(limits::RESULT_URL_TTL.as_millis()).unwrap());
    world.call("GET", &good, None, None).await.refused(403, "signature_invalid");
}

#[tokio::test]
async fn a_task_is_found_by_its_whole_id_only() {
    let world = World::new().await;
    let key = world.submit("closed", 1).await;
    let other = world.submit("closed", 1).await;
    world.succeed(key, 0, Format::Html, b"x").await;
    let foreign = TaskId::of(other.run, 0);
    for wrong in [foreign.to_string(), TaskId::of(key.run, 1).to_string(), "0".repeat(32), "x".into()] {
        for what in ["content", "history"] {
            let path = format!("/v1/jobs/{}/tasks/{wrong}/{what}", key.job);
            world.get(&path).await.refused(404, "not_found");
            let path = format!("/v1/jobs/{}/runs/{}/tasks/{wrong}/{what}", key.job, key.run);
            world.get(&path).await.refused(404, "not_found");
        }
    }
}
