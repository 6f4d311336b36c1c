//! Who is an operator, and what one can put right (SPEC 6.17, 13).

use crate::world::{KEY, OPERATOR_KEY, OTHER_OPERATOR_KEY, World, golden};
use conveyor_domain::{JobId, LetterId, QueueName};
use serde_json::{Value, json};

fn routes() -> Vec<(&'static str, String, Option<Value>)> {
    let letter = LetterId::from_bytes([7; 16]);
    vec![
        ("POST", "reconcile".into(), Some(json!({"dry_run": true}))),
        ("GET", "dead_letters".into(), None),
        ("GET", format!("dead_letters/{letter}"), None),
        ("POST", format!("dead_letters/{letter}/redrive"), None),
        ("DELETE", format!("dead_letters/{letter}"), None),
        ("POST", "dead_letters/redrive".into(), Some(json!({"all": true}))),
        ("PUT", "reconcile".into(), None),
        ("GET", "clock".into(), None),
        ("POST", "clock/confirm".into(), None),
    ]
}

#[tokio::test]
async fn only_an_operator_key_opens_admin_and_nothing_else() {
    let world = World::new().await;
    for (method, path, body) in routes() {
        let path = format!("/v1/admin/{path}");
        for key in [None, Some("an-unknown-key-00000"), Some("")] {
            world.call(method, &path, key, body.clone()).await.refused(401, "unauthenticated");
        }
        world.call(method, &path, Some(KEY), body.clone()).await.refused(403, "forbidden");
        for key in [OPERATOR_KEY, OTHER_OPERATOR_KEY] {
            let status = world.call(method, &path, Some(key), body.clone()).await.status.as_u16();
            assert!(matches!(status, 200 | 404 | 405), "{method} {path}: {status}");
        }
    }
    for path in ["/v1/jobs", "/v1/leases", "/v1/job_inputs"] {
        let refused = world.call("GET", path, Some(OPERATOR_KEY), None).await;
        assert!(refused.refused(401, "unauthenticated").contains("/v1/admin"));
    }
}

#[tokio::test]
async fn without_an_operator_it_is_said_how_to_have_one() {
    let world = World::without_operators().await;
    for (method, path, body) in routes() {
        for key in [None, Some(KEY), Some(OPERATOR_KEY)] {
            let path = format!("/v1/admin/{path}");
            let detail = world.call(method, &path, key, body.clone()).await.refused(403, "forbidden");
            assert!(
                detail.contains("--operator-key") && detail.contains("CONVEYOR_OPERATOR_KEY"),
                "{detail}"
            );
        }
    }
}

/// A run whose messages are lost.
async fn damaged(world: &World) -> JobId {
    let key = world.submit("closed", 3).await;
    while !world.backend.queue.remove(QueueName::Run(key.run), 100).await.unwrap() {}
    key.job
}

#[tokio::test]
async fn damage_is_named_then_mended_then_gone() {
    let world = World::new().await;
    let job = damaged(&world).await;
    let reconcile = async |body: Value| {
        let answer = world.operate("POST", "reconcile", Some(body)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    };
    let seen = reconcile(json!({"dry_run": true})).await;
    golden("reconcile_dry", &seen);
    assert_eq!(
        reconcile(json!({"dry_run": true, "job_id": job.to_string()})).await["findings"],
        seen["findings"]
    );
    let mended = reconcile(json!({})).await;
    assert_eq!(
        (&mended["findings"][0]["outcome"], &mended["findings"][0]["changed"]),
        (&json!("fixed"), &json!(3))
    );
    assert_eq!(reconcile(json!({})).await["findings"], json!([]));
}

#[tokio::test]
async fn another_job_is_left_alone_and_an_unknown_one_is_not_in_order() {
    let world = World::new().await;
    damaged(&world).await;
    let other = world.submit("closed", 1).await.job.to_string();
    let answer = world.operate("POST", "reconcile", Some(json!({"job_id": other}))).await;
    assert_eq!(answer.json()["findings"], json!([]));
    let unknown = JobId::new(world.now(), &world.entropy).to_string();
    let answer = world.operate("POST", "reconcile", Some(json!({"job_id": unknown}))).await;
    answer.refused(404, "not_found");
    for (bad, name) in [
        (json!({"job_id": "x"}), "job_id"),
        (json!({"dry_run": 1}), "dry_run"),
        (json!({"dryrun": true}), "dryrun"),
    ] {
        let detail =
            world.operate("POST", "reconcile?strict=true", Some(bad)).await.refused(400, "invalid_argument");
        assert!(detail.contains(&format!("`{name}`")), "{detail}");
    }
    let from = json!({"from": "missing_refs:"});
    world.operate("POST", "reconcile", Some(from)).await.refused(400, "invalid_cursor");
}

#[tokio::test]
async fn what_does_not_fit_into_one_answer_goes_on_in_the_next() {
    let world = World::new().await;
    for _ in 0..600 {
        damaged(&world).await;
    }
    let (mut body, mut found, mut answers) = (json!({"dry_run": true}), 0, 0);
    loop {
        let answer = world.operate("POST", "reconcile", Some(body.clone())).await.json();
        found += answer["findings"].as_array().unwrap().len();
        answers += 1;
        let Some(next) = answer.get("next") else { break };
        body["from"] = next.clone();
        assert!(answers < 100, "it does not end");
    }
    assert_eq!(found, 600);
    assert!(answers > 1);
    // A place in one reconciliation is none in another.
    body["dry_run"] = json!(false);
    world.operate("POST", "reconcile", Some(body)).await.refused(400, "invalid_cursor");
}
