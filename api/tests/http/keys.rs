//! Keys that operators make (SPEC 6.24).

use crate::operations::alone;
use crate::world::{KEY, OPERATOR_KEY, OTHER_KEY, World, golden};
use conveyor_api::{AbsentKeys, settle_keys};
use conveyor_domain::job::record::Expected;
use conveyor_domain::{
    ApiKey, ApiKeyId, CallerId, KeyHash, Opens, OperatorHash, Record, RecordVersion, RecordWrite, api_key,
    limits,
};
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::{Value, json};
use std::time::Duration;

async fn made(world: &World, body: Value) -> Value {
    let answer = world.operate("POST", "keys", Some(body)).await;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    answer.json()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap()
}

#[tokio::test]
async fn a_key_is_made_shown_once_listed_and_revoked_at_once() {
    let world = World::new().await;
    let quotas = json!({"active_jobs": 3, "queued_tasks": 1000});
    let answer = made(&world, json!({"name": "billing", "quotas": quotas})).await;
    golden("key_made", &answer);
    let (id, key) = (text(&answer, "key_id"), text(&answer, "key"));
    assert!(key.starts_with("cvk_") && key.len() == 68 && key.ends_with(text(&answer, "hint")));

    assert_eq!(world.call("GET", "/v1/jobs", Some(key), None).await.status, 200);
    let listed = world.operate("GET", "keys", None).await;
    golden("keys", &listed.json());
    assert!(!listed.text().contains(key), "it is shown once");

    for _ in 0..2 {
        let answer = world.operate("DELETE", &format!("keys/{id}"), None).await;
        assert_eq!((answer.status.as_u16(), answer.body.len()), (204, 0));
        world.call("GET", "/v1/jobs", Some(key), None).await.refused(401, "unauthenticated");
    }
    let revoked = world.operate("GET", "keys", None).await.json()["keys"][0]["revoked_at"].clone();
    assert_eq!(revoked, answer["created_at"], "the clock stands still");
    world
        .operate("DELETE", &format!("keys/{}", ApiKeyId::from_bytes([1; 16])), None)
        .await
        .refused(404, "not_found");
    assert_eq!(world.get("/v1/jobs").await.status, 200, "others are not touched");
}

#[tokio::test]
async fn keys_of_one_caller_see_the_same_and_no_others() {
    let world = World::new().await;
    let first = made(&world, json!({"name": "one"})).await;
    let second = made(&world, json!({"name": "two", "caller": first["caller"]})).await;
    assert_eq!(first["caller"], second["caller"]);
    let body = json!({"tasks": [{"url": "https://a.example/"}]});
    let job = world.call("POST", "/v1/jobs", Some(text(&first, "key")), Some(body)).await.json();
    let path = format!("/v1/jobs/{}", text(&job, "job_id"));
    assert_eq!(world.call("GET", &path, Some(text(&second, "key")), None).await.status, 200);
    world.get(&path).await.refused(404, "not_found");
    // Revoking one leaves the other.
    world.operate("DELETE", &format!("keys/{}", text(&first, "key_id")), None).await;
    assert_eq!(world.call("GET", &path, Some(text(&second, "key")), None).await.status, 200);
}

#[tokio::test]
async fn an_operator_key_that_was_made_opens_what_operators_open() {
    let world = World::new().await;
    let answer = made(&world, json!({"name": "on call", "operator": true})).await;
    golden("key_made_operator", &answer);
    let key = text(&answer, "key").to_owned();
    assert!(key.starts_with("cvo_"));
    let with = async |key: &str| world.call("GET", "/v1/admin/dead_letters", Some(key), None).await;
    assert_eq!(with(&key).await.status, 200);
    world.call("GET", "/v1/jobs", Some(&key), None).await.refused(401, "unauthenticated");
    // One operator revokes another, and be it by its own key.
    let path = format!("/v1/admin/keys/{}", text(&answer, "key_id"));
    assert_eq!(world.call("DELETE", &path, Some(&key), None).await.status, 204);
    with(&key).await.refused(401, "unauthenticated");
    assert_eq!(with(OPERATOR_KEY).await.status, 200);
}

#[tokio::test]
async fn a_server_without_an_operator_key_of_its_own_takes_those_that_were_made() {
    let world = World::without_operators().await;
    let (id, version) = (ApiKeyId::from_bytes([9; 16]), || RecordVersion::new(&world.entropy));
    let (key, kept) = ApiKey::make("on call".into(), Opens::Operator, world.now(), &world.entropy);
    let write = async |record| {
        let written = RecordWrite::put(record, Expected::Anything);
        assert!(world.backend.store.write_record(written).await.unwrap());
    };
    let refused = world.call("GET", "/v1/admin/keys", Some(&key), None).await;
    refused.refused(403, "forbidden");
    // What it is found by alone does not do: the record says whether it is revoked.
    write(Record::new(api_key::operator_key(kept.hash), version(), &OperatorHash { key: id })).await;
    world.call("GET", "/v1/admin/keys", Some(&key), None).await.refused(403, "forbidden");
    write(Record::new(api_key::record_key(id), version(), &kept)).await;
    assert_eq!(world.call("GET", "/v1/admin/keys", Some(&key), None).await.status, 200);
    let revoked = ApiKey { revoked: Some(world.now()), ..kept };
    write(Record::new(api_key::record_key(id), version(), &revoked)).await;
    world.pass(limits::KEY_ACCEPTED_FOR);
    world.call("GET", "/v1/admin/keys", Some(&key), None).await.refused(403, "forbidden");
}

#[tokio::test]
async fn only_operators_manage_keys() {
    let world = World::new().await;
    let id = ApiKeyId::from_bytes([1; 16]);
    let caller = CallerId::from_bytes([2; 16]);
    for (method, path, body) in [
        ("POST", "keys".to_owned(), Some(json!({"name": "a"}))),
        ("GET", "keys".to_owned(), None),
        ("DELETE", format!("keys/{id}"), None),
        ("GET", format!("callers/{caller}"), None),
        ("PATCH", format!("callers/{caller}"), Some(json!({"active_jobs": 1}))),
    ] {
        let path = format!("/v1/admin/{path}");
        world.call(method, &path, Some(KEY), body.clone()).await.refused(403, "forbidden");
        world
            .call(method, &path, Some("no key of anybody"), body.clone())
            .await
            .refused(401, "unauthenticated");
        world.call(method, &path, None, body).await.refused(401, "unauthenticated");
    }
}

#[tokio::test]
async fn keys_are_listed_page_by_page_the_newest_first() {
    let world = World::new().await;
    for n in 0..5 {
        world.pass_ms(1);
        made(&world, json!({"name": format!("key {n}")})).await;
    }
    let mut names = Vec::new();
    let mut path = "keys?limit=2".to_owned();
    loop {
        let page = world.operate("GET", &path, None).await.json();
        names.extend(page["keys"].as_array().unwrap().iter().map(|key| text(key, "name").to_owned()));
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("keys?limit=2&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(names, ["key 4", "key 3", "key 2", "key 1", "key 0"]);
}

#[tokio::test]
async fn what_is_no_key_is_refused_and_nothing_is_made() {
    let world = World::new().await;
    for body in [
        json!({}),
        json!({"name": ""}),
        json!({"name": "x".repeat(101)}),
        json!({"name": "a", "caller": "me"}),
        json!({"name": "a", "quotas": {"jobs": 1}}),
        json!({"name": "a", "quotas": {"active_jobs": -1}}),
        json!({"name": "a", "operator": true, "quotas": {"active_jobs": 1}}),
    ] {
        world.operate("POST", "keys?strict=true", Some(body)).await.refused(400, "invalid_argument");
    }
    assert_eq!(world.operate("GET", "keys", None).await.json(), json!({"keys": []}));
}

/// What another process did to a key is noticed within the time for which it is remembered.
#[tokio::test]
async fn a_key_that_another_process_revoked_stops_within_its_time() {
    let world = World::new().await;
    let status = async |key| world.call("GET", "/v1/jobs", Some(key), None).await.status.as_u16();
    assert_eq!((status(KEY).await, status(OTHER_KEY).await), (200, 200));
    world.backend.store.revoke_key(KeyHash::of(KEY), world.now()).await.unwrap();
    world.pass(limits::KEY_ACCEPTED_FOR - Duration::from_millis(1));
    assert_eq!(status(KEY).await, 200, "remembered");
    world.pass(Duration::from_millis(1));
    assert_eq!((status(KEY).await, status(OTHER_KEY).await), (401, 200));
    let caller = CallerId::new(world.now(), &world.entropy);
    world.backend.store.put_key(KeyHash::of(KEY), caller, world.now()).await.unwrap();
    assert_eq!(status(KEY).await, 200, "only accepted keys are remembered");
}

#[test]
fn a_hundred_requests_with_one_key_read_it_once() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    metrics::with_local_recorder(&recorder, || {
        alone(async {
            let world = World::new().await;
            for _ in 0..50 {
                assert_eq!(world.get("/v1/jobs").await.status, 200);
            }
            let at_once = futures::future::join_all((0..50).map(|_| world.get("/v1/jobs"))).await;
            assert!(at_once.iter().all(|answer| answer.status == 200));
        });
    });
    let text = handle.render();
    for line in [r#"{source="read"} 1"#, r#"{source="cached"} 99"#] {
        assert!(text.contains(&format!("conveyor_key_lookups_total{line}\n")), "{text}");
    }
}

#[tokio::test]
async fn a_start_revokes_absent_keys_only_if_it_is_told_to() {
    let world = World::new().await;
    let kept = made(&world, json!({"name": "kept"})).await;
    let revoked = made(&world, json!({"name": "revoked"})).await;
    world.operate("DELETE", &format!("keys/{}", text(&revoked, "key_id")), None).await;
    // As if the process had died between the record and the row: the next start goes on.
    let hash = KeyHash::of(text(&revoked, "key"));
    let caller = text(&revoked, "caller").parse().unwrap();
    world.backend.store.put_key(hash, caller, world.now()).await.unwrap();
    assert_eq!(world.call("GET", "/v1/jobs", Some(text(&revoked, "key")), None).await.status, 200);

    for (absent_keys, other) in [(AbsentKeys::Keep, 200), (AbsentKeys::Revoke, 401)] {
        let absent =
            settle_keys(&*world.backend.store, [KeyHash::of(KEY)], absent_keys, world.now()).await.unwrap();
        assert_eq!(absent, [KeyHash::of(OTHER_KEY)], "named, whatever becomes of it");
        world.pass(limits::KEY_ACCEPTED_FOR);
        for (key, status) in
            [(KEY, 200), (OTHER_KEY, other), (text(&kept, "key"), 200), (text(&revoked, "key"), 401)]
        {
            assert_eq!(world.call("GET", "/v1/jobs", Some(key), None).await.status, status);
        }
    }
}
