//! Uploads in parts (SPEC 6.9).

use crate::world::{World, config, golden};
use serde_json::{Value, json};

const PARTS: [&str; 3] = ["https://a.example/0\nhttps://a.exa", "mple/1\n", "https://a.example/2\n"];

struct Slot {
    id: String,
}

impl Slot {
    async fn new(world: &World, more: Value) -> Slot {
        let mut body = json!({"type": "lines", "multipart": true});
        more.as_object().unwrap().iter().for_each(|(name, value)| body[name] = value.clone());
        Slot { id: world.slot(body).await["file_input_id"].as_str().unwrap().to_owned() }
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/job_inputs/{}{rest}", self.id)
    }

    /// Where parts go.
    async fn targets(&self, world: &World, numbers: &[u32]) -> Vec<Value> {
        let answer = world.post(&self.path("/parts"), json!({"numbers": numbers})).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["parts"].as_array().unwrap().clone()
    }

    async fn send(&self, world: &World, number: u32, bytes: &'static str) -> String {
        let target = &self.targets(world, &[number]).await[0];
        let answer = world.put(target, bytes).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.header("etag").to_owned()
    }

    async fn complete(&self, world: &World) -> crate::world::Answer {
        world.act(&self.path("/complete")).await
    }
}

#[tokio::test]
async fn parts_come_in_any_order_and_are_joined() {
    let world = World::new().await;
    let made = world.slot(json!({"type": "lines", "multipart": true})).await;
    golden("job_input_multipart", &made);
    let slot = Slot::new(&world, json!({})).await;
    golden("part_targets", &json!({"parts": slot.targets(&world, &[2, 1]).await}));
    slot.send(&world, 3, PARTS[2]).await;
    slot.send(&world, 1, PARTS[0]).await;
    let missing = slot.complete(&world).await.refused(409, "file_input_incomplete");
    assert_eq!(missing, "Part 2 is missing.");
    let submit = json!({"file_input_id": slot.id});
    world.post("/v1/jobs", submit.clone()).await.refused(409, "file_input_incomplete");
    slot.send(&world, 2, "something else").await;
    slot.send(&world, 2, PARTS[1]).await;
    assert_eq!(world.objects_under(&format!("uploads/{}", slot.id)), 3, "what was sent again is gone");
    golden("job_input_parts", &world.get(&slot.path("")).await.json());

    let completed = slot.complete(&world).await;
    assert_eq!(completed.status, 200);
    assert_eq!(completed.json()["size_bytes"], PARTS.concat().len());
    assert_eq!(completed.json()["status"], "uploaded");
    assert_eq!(slot.complete(&world).await.json(), completed.json(), "a second time");
    assert_eq!(world.objects_under(&format!("uploads/{}", slot.id)), 1, "the parts are gone");

    let key = world.submitted(submit).await;
    let results = world.get(&format!("/v1/jobs/{}/results", key.job)).await.json();
    let urls: Vec<&str> =
        results["results"].as_array().unwrap().iter().map(|row| row["url"].as_str().unwrap()).collect();
    assert_eq!(urls, ["https://a.example/0", "https://a.example/1", "https://a.example/2"]);
    assert_eq!(slot.complete(&world).await.status, 200, "even after a job was made of it");
}

#[tokio::test]
async fn parts_that_the_caller_names_must_be_there() {
    let world = World::new().await;
    let slot = Slot::new(&world, json!({})).await;
    slot.complete(&world).await.refused(409, "file_input_incomplete");
    let etags = [slot.send(&world, 1, PARTS[0]).await, slot.send(&world, 2, PARTS[1]).await];
    let complete = async |parts: Value| world.post(&slot.path("/complete"), json!({"parts": parts})).await;
    let part = |number: usize, etag: &str| json!({"number": number, "etag": etag});
    for wrong in [
        json!([part(1, &etags[0])]),
        json!([part(1, &etags[0]), part(2, &etags[0])]),
        json!([part(1, &etags[0]), part(3, &etags[1])]),
        json!([]),
    ] {
        complete(wrong).await.refused(409, "file_input_incomplete");
    }
    complete(json!([{"part": 1}])).await.refused(400, "invalid_argument");
    let right = json!([part(2, &etags[1]), part(1, etags[0].trim_matches('"'))]);
    assert_eq!(complete(right).await.status, 200);
}

#[tokio::test]
async fn a_complete_upload_takes_no_more_parts() {
    let world = World::new().await;
    let slot = Slot::new(&world, json!({})).await;
    let targets = slot.targets(&world, &[1, 2]).await;
    assert_eq!(world.put(&targets[0], "https://a.example\n").await.status, 200);
    assert_eq!(slot.complete(&world).await.status, 200);
    world.put(&targets[1], "https://b.example\n").await.refused(409, "file_input_complete");
    world.post(&slot.path("/parts"), json!({"numbers": [2]})).await.refused(409, "file_input_complete");
    world.submitted(json!({"file_input_id": slot.id})).await;
    world.put(&targets[1], "https://b.example\n").await.refused(409, "file_input_claimed");
}

#[tokio::test]
async fn a_url_is_for_its_part_alone() {
    let world = World::new().await;
    let slot = Slot::new(&world, json!({})).await;
    let target = &slot.targets(&world, &[7]).await[0];
    for edited in [("/parts/7", "/parts/8"), ("/parts/7", ""), ("expires=", "expires=1")] {
        let url = target["url"].as_str().unwrap().replace(edited.0, edited.1);
        world.put(&json!({"url": url}), "x").await.refused(403, "signature_invalid");
    }
    assert_eq!(world.put(target, "x").await.status, 200);
    for bad in [json!([]), json!([0]), json!([1_001]), json!("1"), json!((1..=101).collect::<Vec<_>>())] {
        let answer = world.post(&slot.path("/parts"), json!({"numbers": bad})).await;
        assert!(answer.refused(400, "invalid_argument").contains("`numbers"));
    }
    let whole = world.slot(json!({"type": "lines"})).await;
    let path = format!("/v1/job_inputs/{}", whole["file_input_id"].as_str().unwrap());
    world.post(&format!("{path}/parts"), json!({"numbers": [1]})).await.refused(409, "conflict");
    world.act(&format!("{path}/complete")).await.refused(409, "conflict");
}

#[tokio::test]
async fn the_whole_must_be_what_was_declared_and_not_too_large() {
    let world = World::new().await;
    let slot = Slot::new(&world, json!({"size_bytes": 5})).await;
    slot.send(&world, 1, "https").await;
    slot.send(&world, 2, "://a.example\n").await;
    slot.complete(&world).await.refused(400, "upload_size_mismatch");
    assert_eq!(world.objects_under(&format!("uploads/{}", slot.id)), 2, "the parts are still there");

    let mut config = config();
    config.list_max_bytes = 10;
    let world = World::with(config).await;
    let slot = Slot::new(&world, json!({})).await;
    slot.send(&world, 1, "12345678").await;
    let target = &slot.targets(&world, &[2]).await[0];
    world.put(target, "123").await.refused(413, "source_too_large");
    slot.send(&world, 2, "12").await;
    slot.send(&world, 1, "1234567890"[..8].as_ref()).await;
    assert_eq!(slot.complete(&world).await.status, 200);
}
