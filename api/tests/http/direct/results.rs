//! Where results are read from.

use super::{OnS3, on_each_server};
use conveyor_domain::{Format, Outcome, ResultRef, WorkerId, checksum};
use conveyor_store::port::BlobKey;

on_each_server!(
    a_body_with_an_object_of_its_own_is_read_from_the_storage,
    a_damaged_body_is_told_by_its_checksum,
);

async fn a_body_with_an_object_of_its_own_is_read_from_the_storage(world: OnS3) {
    let key = world.submit("closed", 3).await;
    world.succeed(key, 0, Format::Html, b"<p>one of several</p>").await;
    let object = BlobKey::results(key.job, key.run, WorkerId::new(world.now(), &world.entropy), 7);
    world.backend.blobs.put(&object, "{}".into()).await.unwrap();
    let result = ResultRef {
        object: Some(object.to_string()),
        whole: true,
        offset: 0,
        length: 2,
        format: Format::Json,
        http_status: 200,
        crc32: Some(checksum::hash(b"{}")),
    };
    world.settle(key, 1, Outcome::Successful(result)).await;
    let results = world.get(&format!("/v1/jobs/{}/results", key.job)).await.json();
    let url = |n: usize| results["results"][n]["result_url"].as_str().unwrap_or_default().to_owned();
    assert!(url(0).starts_with("http://api.test:8080/v1/content/"), "{}", url(0));
    assert_eq!(url(2), "");
    assert!(url(1).starts_with(&world.endpoint) && url(1).contains("X-Amz-Expires=7200"), "{}", url(1));
    let expires = |n: usize| results["results"][n]["result_url_expires_at"].as_str();
    assert!(expires(0).is_some() && expires(0) == expires(1) && expires(2).is_none(), "{results}");
    let answer = conveyor_outbound::client_builder().build().unwrap().get(url(1)).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-type"], Format::Json.content_type());
    assert_eq!(answer.headers()["content-disposition"], "inline");
    assert_eq!(answer.text().await.unwrap(), "{}");
    let ours = world.get(url(0).strip_prefix("http://api.test:8080").unwrap()).await;
    assert_eq!(ours.text(), "<p>one of several</p>");
    for (index, body) in [(0, "<p>one of several</p>"), (1, "{}")] {
        let task = conveyor_domain::TaskId::of(key.run, index);
        let content = world.get(&format!("/v1/jobs/{}/tasks/{task}/content", key.job)).await;
        assert_eq!(content.text(), body);
    }

    // The last half hour of its time: a URL for longer would show what nobody is to see any more.
    world.pass_days(14);
    world.pass_ms(-30 * 60_000);
    let results = world.get(&format!("/v1/jobs/{}/results", key.job)).await.json();
    let last = results["results"][1]["result_url"].as_str().unwrap();
    assert!(last.contains("X-Amz-Expires=1800"), "{last}");
    world.pass_ms(30 * 60_000);
    let results = world.get(&format!("/v1/jobs/{}/results", key.job)).await.json();
    let row = &results["results"][1];
    assert_eq!((row["status"].as_str(), row.get("result_url")), (Some("expired"), None));
}

/// The damage is done through the API of S3, as nobody else would do it.
async fn a_damaged_body_is_told_by_its_checksum(world: OnS3) {
    let key = world.submit("closed", 3).await;
    for index in 0..3 {
        world.succeed(key, index, Format::Html, b"<p>what was written</p>").await;
    }
    world.change_body(key, 0, |bytes| bytes[9] ^= 1).await;
    world.change_body(key, 1, |bytes| bytes.truncate(9)).await;
    let results = world.get(&format!("/v1/jobs/{}/results", key.job)).await.json();
    for (index, status) in [(0, 410), (1, 410), (2, 200)] {
        let url = results["results"][index]["result_url"].as_str().unwrap();
        let answer = world.call("GET", url.strip_prefix("http://api.test:8080").unwrap(), None, None).await;
        assert_eq!(answer.status, status, "{}", answer.text());
    }
    let audit = format!("/v1/jobs/{}/runs/{}/audit/bodies", key.job, key.run);
    let audit = world.get(&audit).await.json();
    let faults: Vec<&str> =
        audit["at_fault"].as_array().unwrap().iter().map(|one| one["fault"].as_str().unwrap()).collect();
    assert_eq!((audit["read"].as_u64(), &faults[..]), (Some(3), &["damaged", "truncated"][..]));
}
