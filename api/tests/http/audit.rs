//! Everything that is stored of a run, counted (SPEC 6.14).

use crate::world::{OTHER_KEY, World, golden};
use conveyor_domain::{Command, Format, Sums};
use conveyor_store::port::{RunKey, StatusFilter, TasksQuery};
use serde_json::json;

impl World {
    async fn audit(&self, key: RunKey) -> serde_json::Value {
        let answer = self.get(&format!("/v1/jobs/{}/runs/{}/audit", key.job, key.run)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }
}

#[tokio::test]
async fn a_run_in_order_agrees() {
    let world = World::new().await;
    let key = world.submit("closed", 4).await;
    world.succeed(key, 0, Format::Html, b"x").await;
    world.fail(key, 1).await;
    world.claim(key, 2).await;
    golden("audit", &world.audit(key).await);
}

#[tokio::test]
async fn what_does_not_agree_is_named() {
    let world = World::new().await;
    let key = world.submit("closed", 3).await;
    world.succeed(key, 0, Format::Html, b"x").await;
    world.succeed(key, 1, Format::Html, b"y").await;
    // A counter that says too much, and a body that is gone.
    let wrong = Sums { successful: 1, ..Sums::default() };
    assert!(world.backend.store.correct(key, wrong, 0, world.now()).await.unwrap());
    let query = TasksQuery { key, filter: StatusFilter::Successful, after: None, limit: 1, max_bytes: 1_000 };
    let task = world.backend.store.tasks(query).await.unwrap().remove(0);
    let object = task.result.unwrap().object.unwrap().parse().unwrap();
    world.backend.blobs.delete(&object).await.unwrap();

    let audit = world.audit(key).await;
    assert_eq!(audit["agrees"], false);
    assert_eq!(audit["disagreements"].as_array().unwrap().len(), 2, "{audit}");
    assert_eq!((&audit["counters"]["successful"], &audit["rows"]["successful"]), (&json!(3), &json!(2)));
    assert_eq!(audit["results"], json!({"present": 1, "missing": 1}));
    let repairs: Vec<&str> =
        audit["findings"].as_array().unwrap().iter().map(|f| f["repair"].as_str().unwrap()).collect();
    assert_eq!(repairs, ["wrong_counters"]);
    assert_eq!(world.audit(key).await["findings"], audit["findings"], "looking changes nothing");
}

#[tokio::test]
async fn rows_that_may_be_gone_prove_nothing() {
    let world = World::new().await;
    let key = world.submit("closed", 1).await;
    world.apply(key.job, Command::Stop).await;
    world.pass_days(31);
    let audit = world.audit(key).await;
    assert_eq!((&audit["agrees"], audit.get("rows"), audit.get("results")), (&json!(true), None, None));
}

#[tokio::test]
async fn bodies_are_read_and_those_at_fault_are_named() {
    let world = World::new().await;
    let key = world.submit("closed", 5).await;
    for index in 0..4 {
        world.succeed(key, index, Format::Html, b"what was written").await;
    }
    world.fail(key, 4).await;
    let path = format!("/v1/jobs/{}/runs/{}/audit/bodies", key.job, key.run);
    let fine = world.get(&path).await.json();
    let nothing: [u8; 0] = [];
    assert_eq!(
        fine,
        json!({"read": 4, "bytes": 64, "unverified": 0, "at_fault": nothing, "more_at_fault": 0}),
        "a failed task has no body"
    );
    world.change_body(key, 0, |bytes| bytes[6] ^= 1).await;
    world.change_body(key, 2, |bytes| bytes.truncate(7)).await;
    let query = TasksQuery { key, filter: StatusFilter::All, after: None, limit: 9, max_bytes: 9_000 };
    let gone = world.backend.store.tasks(query).await.unwrap().remove(3).result.unwrap().object.unwrap();
    world.backend.blobs.delete(&gone.parse().unwrap()).await.unwrap();
    golden("audit_bodies", &world.get(&path).await.json());
    // What is not read cannot be told.
    assert_eq!(world.audit(key).await["results"], json!({"present": 3, "missing": 1}));

    world.get(&format!("{path}?cursor=x")).await.refused(400, "invalid_cursor");
    world.get(&format!("{path}?deep=true")).await.refused(400, "invalid_argument");
    world.call("GET", &path, Some(OTHER_KEY), None).await.refused(404, "not_found");
    world.apply(key.job, Command::Stop).await;
    world.pass_days(31);
    world.get(&path).await.refused(410, "result_expired");
}
