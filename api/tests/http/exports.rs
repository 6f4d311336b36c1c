//! Exports (SPEC 6.22), as a caller sees them. They are built as the ingest role does.

use crate::world::{Answer, KEY, OTHER_KEY, World, golden};
use conveyor_domain::{Format, TaskId, limits};
use conveyor_store::port::{BlobKey, RunKey};
use serde_json::{Value, json};
use std::io::{Cursor, Read};

fn exports(key: RunKey) -> String {
    format!("/v1/jobs/{}/runs/{}/exports", key.job, key.run)
}

impl World {
    /// Asks for an export and returns where it is.
    async fn export(&self, key: RunKey, body: Option<Value>) -> String {
        let answer = self.call("POST", &exports(key), Some(KEY), body).await;
        assert_eq!(answer.status, 202, "{:?}", answer.body);
        answer.header("location").to_owned()
    }

    /// What the URL of a finished export leads to.
    async fn downloaded(&self, export: &Value) -> Answer {
        self.call("GET", &path_of(export), None, None).await
    }
}

fn path_of(export: &Value) -> String {
    let url = export["download_url"].as_str().unwrap();
    url.strip_prefix("http://api.test:8080").unwrap().to_owned()
}

async fn a_run(world: &World) -> RunKey {
    let key = world.submit("closed", 3).await;
    world.succeed(key, 0, Format::Html, b"<h1>hi</h1>").await;
    world.succeed(key, 1, Format::Pdf, b"%PDF").await;
    world.fail(key, 2).await;
    key
}

#[tokio::test]
async fn a_zip_is_asked_for_without_a_body_polled_and_downloaded() {
    let world = World::new().await;
    let key = a_run(&world).await;
    let started = world.act(&exports(key)).await;
    assert_eq!((started.status.as_u16(), started.header("retry-after")), (202, "2"));
    golden("export_started", &started.json());
    let place = started.header("location").to_owned();
    assert_eq!(place, format!("{}/{}", exports(key), started.json()["export_id"].as_str().unwrap()));
    golden("export_pending", &world.get(&place).await.json());

    world.build_exports().await;
    let export = world.get(&place).await.json();
    golden("export_completed", &export);
    let answer = world.downloaded(&export).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), "application/zip");
    assert_eq!(answer.header("content-length"), answer.body.len().to_string());
    let name = format!("attachment; filename=\"results-{}.zip\"", key.run);
    assert_eq!(answer.header("content-disposition"), name);
    let mut archive = zip::ZipArchive::new(Cursor::new(answer.body)).unwrap();
    let mut body = String::new();
    let entry = format!("{}.html", TaskId::of(key.run, 0));
    archive.by_name(&entry).unwrap().read_to_string(&mut body).unwrap();
    assert_eq!((body.as_str(), archive.len()), ("<h1>hi</h1>", 2));
    let head = world.call("HEAD", &path_of(&export), None, None).await;
    assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
}

#[tokio::test]
async fn rows_can_be_had_as_jsonl_and_csv() {
    let world = World::new().await;
    let key = a_run(&world).await;
    for (format, content_type) in [("jsonl", "application/x-ndjson"), ("csv", "text/csv; charset=utf-8")] {
        let place = world.export(key, Some(json!({"format": format}))).await;
        world.build_exports().await;
        let export = world.get(&place).await.json();
        assert_eq!((&export["format"], &export["progress"]["tasks_done"]), (&json!(format), &json!(3)));
        let answer = world.downloaded(&export).await;
        assert_eq!(answer.header("content-type"), content_type);
        let header = usize::from(format == "csv");
        assert_eq!(answer.text().lines().count(), 3 + header);
    }
}

#[tokio::test]
async fn a_run_that_goes_on_can_be_exported_as_far_as_it_is() {
    let world = World::new().await;
    let key = world.submit("open", 2).await;
    world.succeed(key, 0, Format::Json, b"{}").await;
    let place = world.export(key, None).await;
    world.build_exports().await;
    assert_eq!(world.get(&place).await.json()["progress"]["tasks_total"], 1);
}

#[tokio::test]
async fn a_request_that_makes_no_sense_is_refused() {
    let world = World::new().await;
    let key = world.submit("closed", 1).await;
    for body in [json!({"format": "tar"}), json!({"format": 1}), json!({"formt": "zip"}), json!([])] {
        world.post(&format!("{}?strict=true", exports(key)), body).await.refused(400, "invalid_argument");
    }
    world.act(&format!("{}?format=zip", exports(key))).await.refused(400, "invalid_argument");
    world.get(&format!("{}/{}", exports(key), key.run)).await.refused(404, "not_found");
    world.get(&format!("{}/nonsense", exports(key))).await.refused(404, "not_found");
}

#[tokio::test]
async fn a_failed_one_says_why() {
    let world = World::new().await;
    let key = a_run(&world).await;
    world.backend.blobs.delete_under(&BlobKey::results_prefix(key.job, key.run)).await.unwrap();
    let place = world.export(key, None).await;
    world.build_exports().await;
    let export = world.get(&place).await.json();
    let error = format!("the result of task {} is no longer kept", TaskId::of(key.run, 0));
    assert_eq!((&export["status"], &export["error"]), (&json!("failed"), &json!(error)));
    assert_eq!(export.get("download_url"), None);
}

#[tokio::test]
async fn it_is_gone_after_twelve_hours_whether_or_not_anybody_removed_it() {
    let world = World::new().await;
    let key = a_run(&world).await;
    let place = world.export(key, None).await;
    world.build_exports().await;
    let hour = 3_600_000;
    world.pass_ms(11 * hour);
    let last = world.get(&place).await.json();
    assert_eq!(world.downloaded(&last).await.status, 200);
    world.pass_ms(hour);
    world.get(&place).await.refused(404, "not_found");
    world.downloaded(&last).await.refused(403, "signature_invalid");
    assert_eq!(world.get(&exports(key)).await.json()["exports"], json!([]));
}

#[tokio::test]
async fn a_url_is_for_one_export_and_cannot_be_edited() {
    let world = World::new().await;
    let key = a_run(&world).await;
    let (one, two) = (world.export(key, None).await, world.export(key, None).await);
    world.build_exports().await;
    let url = path_of(&world.get(&one).await.json());
    let id = |place: &str| place.rsplit('/').next().unwrap().to_owned();
    for edited in [
        url.replace(&id(&one), &id(&two)),
        url.replace("expires=1", "expires=2"),
        format!("{url}x"),
        url.split('?').next().unwrap().to_owned(),
    ] {
        assert_ne!(edited, url);
        world.call("GET", &edited, None, None).await.refused(403, "signature_invalid");
    }
    world.pass_ms(2 * 3_600_000);
    world.call("GET", &url, None, None).await.refused(403, "signature_invalid");
    assert_ne!(path_of(&world.get(&one).await.json()), url, "every look gets a fresh one");
}

#[tokio::test]
async fn exports_are_listed_newest_first_and_removed() {
    let world = World::new().await;
    let key = a_run(&world).await;
    let mut places = Vec::new();
    for _ in 0..3 {
        world.pass_ms(5);
        places.push(world.export(key, None).await);
    }
    world.build_exports().await;
    let first = world.get(&format!("{}?limit=2", exports(key))).await.json();
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = world.get(&format!("{}?cursor={cursor}", exports(key))).await.json();
    let ids = |page: &Value| -> Vec<String> {
        let all = page["exports"].as_array().unwrap().iter();
        all.map(|export| format!("{}/{}", exports(key), export["export_id"].as_str().unwrap())).collect()
    };
    assert_eq!(ids(&first), [places[2].clone(), places[1].clone()]);
    assert_eq!(ids(&second), [places[0].clone()]);

    let url = path_of(&world.get(&places[1]).await.json());
    let objects = || world.objects_under(&format!("jobs/{}/runs/{}/exports", key.job, key.run));
    assert_eq!(objects(), 3);
    assert_eq!(world.call("DELETE", &places[1], Some(KEY), None).await.status, 204);
    world.get(&places[1]).await.refused(404, "not_found");
    world.call("DELETE", &places[1], Some(KEY), None).await.refused(404, "not_found");
    world.call("GET", &url, None, None).await.refused(404, "not_found");
    assert_eq!(ids(&world.get(&exports(key)).await.json()).len(), 2);
    world.build_exports().await;
    assert_eq!(objects(), 2, "its object went");
}

#[tokio::test]
async fn a_run_has_so_many_exports_and_no_more() {
    let world = World::new().await;
    let key = a_run(&world).await;
    for _ in 0..limits::EXPORTS_LIVE_MAX {
        world.export(key, None).await;
    }
    let detail = world.act(&exports(key)).await.refused(429, "quota_exceeded");
    assert!(detail.contains("10 exports that are not finished"), "{detail}");
    let other = a_run(&world).await;
    world.export(other, None).await;
    world.build_exports().await;
    world.export(key, None).await;
}

#[tokio::test]
async fn exports_of_a_run_that_is_deleted_are_not_there() {
    let world = World::new().await;
    let key = a_run(&world).await;
    let place = world.export(key, None).await;
    world.build_exports().await;
    let url = path_of(&world.get(&place).await.json());
    let run = format!("/v1/jobs/{}/runs/{}", key.job, key.run);
    assert_eq!(world.call("DELETE", &run, Some(KEY), None).await.status, 202);
    world.get(&place).await.refused(404, "not_found");
    world.get(&exports(key)).await.refused(404, "not_found");
    world.call("GET", &url, None, None).await.refused(404, "not_found");
    world.act(&exports(key)).await.refused(410, "result_expired");
}

#[tokio::test]
async fn anothers_export_is_not_there() {
    let world = World::new().await;
    let key = a_run(&world).await;
    let place = world.export(key, None).await;
    for method in ["GET", "DELETE"] {
        world.call(method, &place, Some(OTHER_KEY), None).await.refused(404, "not_found");
    }
    // Under another run of the same caller neither.
    let other = a_run(&world).await;
    let id = place.rsplit('/').next().unwrap();
    world.get(&format!("{}/{id}", exports(other))).await.refused(404, "not_found");
}
