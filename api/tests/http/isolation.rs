//! SPEC 3.9: nothing shows without a key, and a run belongs to its job. What one caller can see of another's is in
//! `two_callers`.

use crate::described::operations;
use crate::world::{KEY, World};
use conveyor_domain::TaskId;

#[tokio::test]
async fn without_a_key_nothing_shows() {
    let world = World::new().await;
    let mine = world.submit("open", 1).await;
    let task = TaskId::of(mine.run, 0).to_string();
    for operation in operations().into_iter().filter(|one| one.key() == Some("ApiKey")) {
        let path = operation.path.replace("{job}", &mine.job.to_string());
        let path = path.replace("{run}", &mine.run.to_string()).replace("{task}", &task);
        let method = operation.method.to_uppercase();
        for path in [path.clone(), format!("{path}?nonsense=1"), format!("{path}?api_key={KEY}")] {
            for key in [None, Some("an-unknown-key-00000"), Some("")] {
                for body in [None, Some(serde_json::json!({"nonsense": true}))] {
                    world.call(&method, &path, key, body).await.refused(401, "unauthenticated");
                }
            }
        }
        world.call("TRACE", &path, None, None).await.refused(401, "unauthenticated");
    }
    world.call("GET", "/v1/jobs/not-an-id", None, None).await.refused(401, "unauthenticated");
}

#[tokio::test]
async fn a_malformed_id_is_answered_like_an_unknown_one() {
    let world = World::new().await;
    let seen = |answer: crate::world::Answer| {
        let mut body = answer.json();
        body["instance"] = serde_json::Value::Null;
        (answer.status, body)
    };
    let unknown = conveyor_domain::JobId::new(world.now(), &world.entropy);
    let unknown = seen(world.get(&format!("/v1/jobs/{unknown}")).await);
    assert_eq!(seen(world.get("/v1/jobs/not-an-id").await), unknown);
}

#[tokio::test]
async fn a_run_belongs_to_its_job() {
    let world = World::new().await;
    let (one, two) = (world.submit("closed", 1).await, world.submit("closed", 1).await);
    for rest in ["", "/results"] {
        world.get(&format!("/v1/jobs/{}/runs/{}{rest}", one.job, two.run)).await.refused(404, "not_found");
    }
}
