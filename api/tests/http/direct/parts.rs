//! Lists that are sent in parts.

use super::{OnS3, id_of, on_each_server, sent_key};
use crate::world::{Answer, config};
use conveyor_domain::limits::MIB;
use conveyor_store::port::Joined;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

on_each_server!(
    parts_come_in_any_order_and_are_joined,
    parts_that_the_caller_names_must_be_there,
    a_part_that_is_too_short_is_named,
    the_whole_must_be_what_was_declared,
    no_url_takes_more_than_its_part_of_a_list,
    a_digest_of_the_whole_is_checked,
    completing_twice_at_once_is_completing_once,
    parts_that_were_joined_before_a_crash_are_staged_after_it,
);

/// Rows that end exactly where a part may.
fn part_of(tag: &str, bytes: usize) -> String {
    let row = |n: usize| format!("https://{tag}.example/{n:010}\n");
    let length = row(0).len();
    let mut text: String = (0..bytes / length).map(row).collect();
    text.push_str(&"\n".repeat(bytes - text.len()));
    text
}

async fn slot(world: &OnS3, more: Value) -> String {
    let mut body = json!({"type": "lines", "multipart": true, "part_bytes": 5 * MIB});
    more.as_object().unwrap().iter().for_each(|(name, value)| body[name] = value.clone());
    let slot = world.slot(body).await;
    assert_eq!(slot["multipart"]["part_min_bytes"], 5 * MIB);
    assert_eq!(slot.get("upload"), None);
    id_of(&slot).to_owned()
}

async fn sign(world: &OnS3, id: &str, body: Value) -> Answer {
    world.post(&format!("/v1/job_inputs/{id}/parts"), body).await
}

async fn target(world: &OnS3, id: &str, number: u32, size: usize) -> Value {
    let answer = sign(world, id, json!({"numbers": [number], "size_bytes": size})).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["parts"][0].clone()
}

/// Sends a part, and returns its ETag.
async fn send(world: &OnS3, id: &str, number: u32, bytes: impl Into<String>) -> String {
    let bytes = bytes.into();
    let answer = world.send(&target(world, id, number, bytes.len()).await, bytes).await;
    assert_eq!(answer.status(), 200);
    answer.headers()["etag"].to_str().unwrap().to_owned()
}

async fn complete(world: &OnS3, id: &str) -> Answer {
    world.act(&format!("/v1/job_inputs/{id}/complete")).await
}

async fn parts_come_in_any_order_and_are_joined(world: OnS3) {
    let id = slot(&world, json!({})).await;
    complete(&world, &id).await.refused(409, "file_input_incomplete");
    let (first, last) = (part_of("first", 5 * MIB), "https://last.example/0\n");
    send(&world, &id, 3, last).await;
    send(&world, &id, 1, first.clone()).await;
    let missing = complete(&world, &id).await.refused(409, "file_input_incomplete");
    assert_eq!(missing, "Part 2 is missing.");
    let submit = json!({"file_input_id": id});
    world.post("/v1/jobs", submit.clone()).await.refused(409, "file_input_incomplete");
    send(&world, &id, 2, "something else").await;
    let late = target(&world, &id, 2, 5 * MIB).await;
    world.sent(&late, part_of("second", 5 * MIB)).await;
    let shown = world.shown(&id).await;
    let parts: Vec<(u64, u64)> = shown["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| (part["number"].as_u64().unwrap(), part["size_bytes"].as_u64().unwrap()))
        .collect();
    let part_bytes = 5 * MIB as u64;
    assert_eq!(parts, [(1, part_bytes), (2, part_bytes), (3, last.len() as u64)]);
    assert_eq!(shown["status"], "waiting");

    let completed = complete(&world, &id).await;
    assert_eq!(completed.status, 200, "{}", completed.text());
    let (size, status) = (&completed.json()["size_bytes"], &completed.json()["status"]);
    assert_eq!((size, status), (&json!(2 * 5 * MIB + last.len()), &json!("uploaded")));
    assert_eq!(complete(&world, &id).await.json(), completed.json(), "a second time");
    sign(&world, &id, json!({"numbers": [4]})).await.refused(409, "file_input_complete");
    let again = world.send(&late, part_of("late", 5 * MIB)).await;
    assert_eq!(again.status(), 404, "the storage does not know the part any more");
    assert_eq!(world.keys().await, [sent_key(&id).to_string()], "no copy: nobody can write to it");

    let answer = world.post("/v1/jobs", submit).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    assert_eq!(complete(&world, &id).await.status, 200, "even after a job was made of it");
    assert_eq!(world.shown(&id).await["status"], "claimed");
    assert_eq!(world.keys().await.len(), 1, "and it is still there");
}

async fn parts_that_the_caller_names_must_be_there(world: OnS3) {
    let id = slot(&world, json!({})).await;
    let etags = [send(&world, &id, 1, part_of("a", 5 * MIB)).await, send(&world, &id, 2, "b\n").await];
    let complete = async |parts: Value| {
        world.post(&format!("/v1/job_inputs/{id}/complete"), json!({"parts": parts})).await
    };
    let part = |number: usize, etag: &str| json!({"number": number, "etag": etag});
    for wrong in [
        json!([part(1, &etags[0])]),
        json!([part(1, &etags[0]), part(2, &etags[0])]),
        json!([part(1, &etags[0]), part(3, &etags[1])]),
    ] {
        complete(wrong).await.refused(409, "file_input_incomplete");
    }
    let right = json!([part(2, &etags[1]), part(1, etags[0].trim_matches('"'))]);
    assert_eq!(complete(right).await.status, 200);
}

async fn a_part_that_is_too_short_is_named(world: OnS3) {
    let id = slot(&world, json!({})).await;
    send(&world, &id, 1, part_of("a", 5 * MIB)).await;
    send(&world, &id, 2, "short\n").await;
    send(&world, &id, 3, "short\n").await;
    let detail = complete(&world, &id).await.refused(400, "invalid_argument");
    assert_eq!(detail, "Part 2 has 6 bytes, and every part but the last must have at least 5242880.");
    send(&world, &id, 2, part_of("b", 5 * MIB)).await;
    assert_eq!(complete(&world, &id).await.status, 200);
}

async fn the_whole_must_be_what_was_declared(world: OnS3) {
    let id = slot(&world, json!({"size_bytes": 5})).await;
    send(&world, &id, 1, "http").await;
    complete(&world, &id).await.refused(400, "upload_size_mismatch");
    assert_eq!(world.shown(&id).await["parts"].as_array().unwrap().len(), 1, "the part is still there");
    for longer in [json!({"numbers": [1], "size_bytes": 6}), json!({"numbers": [2]})] {
        sign(&world, &id, longer).await.refused(413, "source_too_large");
    }
}

/// Nothing that a caller has URLs for is longer, all of it together, than a list may be.
async fn no_url_takes_more_than_its_part_of_a_list(world: OnS3) {
    let list_max_bytes = 5 * MIB as u64 + 10;
    let world = OnS3::with(world.server, conveyor_api::ApiConfig { list_max_bytes, ..config() }).await;
    let id = slot(&world, json!({})).await;
    let answer = sign(&world, &id, json!({"numbers": [1, 2]})).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let parts = answer.json()["parts"].clone();
    for (target, size) in [(&parts[0], 5 * MIB), (&parts[1], 10)] {
        for wrong in [size - 1, size + 1] {
            assert_eq!(world.send(target, part_of("a", wrong)).await.status(), 403, "{wrong} of {size}");
        }
        assert_eq!(world.send(target, part_of("a", size)).await.status(), 200);
    }
    let detail = sign(&world, &id, json!({"numbers": [1], "size_bytes": 5 * MIB + 1})).await;
    assert!(detail.refused(400, "invalid_argument").contains("`part_bytes`"));
    for longer in [json!({"numbers": [2], "size_bytes": 11}), json!({"numbers": [1, 3]})] {
        sign(&world, &id, longer).await.refused(413, "source_too_large");
    }
    // The length of the last part is known where that of the list is.
    let id = slot(&world, json!({"size_bytes": 5 * MIB + 3})).await;
    let parts = sign(&world, &id, json!({"numbers": [1, 2]})).await.json()["parts"].clone();
    world.sent(&parts[0], part_of("a", 5 * MIB)).await;
    world.sent(&parts[1], "\n\n\n").await;
    assert_eq!(complete(&world, &id).await.status, 200);
}

async fn a_digest_of_the_whole_is_checked(world: OnS3) {
    let parts = [part_of("a", 5 * MIB), part_of("b", 1_000)];
    let sha256 = Sha256::digest(parts.concat());
    let sha256: String = sha256.iter().map(|b| format!("{b:02x}")).collect();
    for (declared, status) in [(sha256, 200), ("0".repeat(64), 400)] {
        let id = slot(&world, json!({"sha256": declared})).await;
        for (number, part) in (1..).zip(&parts) {
            send(&world, &id, number, part.clone()).await;
        }
        for _ in 0..2 {
            let answer = complete(&world, &id).await;
            assert_eq!(answer.status, status, "{}", answer.text());
            if status != 200 {
                answer.refused(400, "upload_checksum_mismatch");
            }
        }
    }
}

async fn completing_twice_at_once_is_completing_once(world: OnS3) {
    let id = slot(&world, json!({})).await;
    send(&world, &id, 1, part_of("a", 5 * MIB)).await;
    send(&world, &id, 2, "https://a.example\n").await;
    let answers = futures::future::join_all((0..4).map(|_| complete(&world, &id))).await;
    for answer in answers {
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    assert_eq!(world.keys().await, [sent_key(&id).to_string()]);
    let job = world.post("/v1/jobs", json!({"file_input_id": id})).await;
    assert_eq!(job.status, 202, "{}", job.text());
}

async fn parts_that_were_joined_before_a_crash_are_staged_after_it(world: OnS3) {
    let id = slot(&world, json!({})).await;
    send(&world, &id, 1, "https://a.example\n").await;
    let listed = world.shown(&id).await;
    assert_eq!(listed["parts"].as_array().unwrap().len(), 1);
    let direct = world.backend.direct.clone().unwrap();
    let uploads = world.s3.list_multipart_uploads().bucket(&world.bucket).send().await.unwrap();
    let handle = uploads.uploads()[0].upload_id().unwrap().to_owned();
    let parts = direct.parts(&sent_key(&id), &handle).await.unwrap().unwrap();
    let joined = direct.join_parts(&sent_key(&id), &handle, &parts).await.unwrap();
    assert!(matches!(joined, Joined::Done(_)));
    assert_eq!(world.shown(&id).await["status"], "waiting");
    assert_eq!(complete(&world, &id).await.status, 200);
    assert_eq!(world.post("/v1/jobs", json!({"file_input_id": id})).await.status, 201);
}
