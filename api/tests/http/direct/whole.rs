//! Lists that are sent in one request.

use super::{OnS3, id_of, lines, on_each_server, sent_key};
use crate::world::{KEY, config};
use conveyor_domain::limits;
use conveyor_store::port::{Reader, RunKey};
use futures::TryStreamExt;
use futures::future::join_all;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

on_each_server!(
    a_list_goes_straight_to_the_storage_and_becomes_a_job,
    what_is_sent_after_a_job_was_made_changes_nothing,
    until_a_job_is_made_a_later_list_replaces_an_earlier_one,
    bytes_must_be_what_was_declared,
    a_list_has_a_largest_size,
    submits_at_once_read_one_copy,
    lists_that_are_replaced_all_the_time_are_never_mixed,
    an_aborted_slot_leaves_nothing,
    a_slot_that_could_not_be_made_leaves_nothing,
    there_is_no_other_way_in,
    tasks_of_a_long_body_are_staged_in_the_storage,
    a_dry_run_reads_what_was_sent_and_copies_nothing,
    a_long_list_is_counted_on_the_submit_if_there_is_time,
);

async fn submit(world: &OnS3, id: &str) -> crate::world::Answer {
    world.post("/v1/jobs", json!({"file_input_id": id})).await
}

async fn a_list_goes_straight_to_the_storage_and_becomes_a_job(world: OnS3) {
    // Word for word what the batch client sends.
    let csv = json!({"type": "csv", "csv": {
        "delimiter": ",", "quote": "\"", "header": true, "fields": {"url": "link", "external_id": 1},
    }});
    let slot = world.slot(csv).await;
    let id = id_of(&slot);
    assert_eq!(slot["upload"]["headers"], json!({"Content-Type": "text/csv"}));
    assert!(slot["upload"]["url"].as_str().unwrap().contains("X-Amz-Expires=1800"));
    assert_eq!(world.shown(id).await["status"], "waiting");
    submit(&world, id).await.refused(409, "file_input_not_uploaded");

    let list = "link,id\nhttps://a.example/0,x\nhttps://a.example/1,y\n";
    world.sent(&slot["upload"], list).await;
    let shown = world.shown(id).await;
    assert_eq!((&shown["status"], &shown["size_bytes"]), (&json!("uploaded"), &json!(list.len())));
    assert_eq!(shown.get("sha256"), None, "nobody has computed it");
    assert!(shown["upload"].is_object());

    let answer = submit(&world, id).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let RunKey { job, run } = answer.run_key();
    assert_eq!(world.urls(job).await, ["https://a.example/0", "https://a.example/1"]);
    let shown = world.shown(id).await;
    assert_eq!((&shown["status"], shown.get("upload")), (&json!("claimed"), None));
    let ingest = world.get(&format!("/v1/jobs/{job}/runs/{run}/ingest")).await.json();
    assert_eq!((&ingest["size_bytes"], ingest.get("sha256")), (&json!(list.len()), None));
}

/// The bytes that a run ingests, as its ingester reads them.
async fn ingested(world: &OnS3, key: RunKey) -> Vec<u8> {
    use conveyor_domain::IngestEvent;
    let log = world.backend.store.ingest(key, Reader::Role).await.unwrap().unwrap().log;
    let IngestEvent::Accepted { source } = &log[0].event else { panic!("{log:?}") };
    let (object, etag) = (source.staged.object.parse().unwrap(), &source.staged.etag);
    let stream = world.backend.blobs.read_pinned(&object, etag, 0).await.unwrap();
    stream.try_collect::<Vec<_>>().await.unwrap().concat()
}

async fn what_is_sent_after_a_job_was_made_changes_nothing(world: OnS3) {
    let slot = world.slot(json!({"type": "lines"})).await;
    let accepted = lines("accepted", 10_000);
    world.sent(&slot["upload"], accepted.clone()).await;
    let answer = submit(&world, id_of(&slot)).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    world.sent(&slot["upload"], lines("late", 3)).await;
    assert!(ingested(&world, answer.run_key()).await == accepted.as_bytes());
    let again = submit(&world, id_of(&slot)).await;
    assert_eq!(again.status, 202, "of what the first job was made of");
    assert!(ingested(&world, again.run_key()).await == accepted.as_bytes());
    assert_eq!(world.shown(id_of(&slot)).await["size_bytes"], accepted.len());
}

async fn until_a_job_is_made_a_later_list_replaces_an_earlier_one(world: OnS3) {
    let slot = world.slot(json!({"type": "lines"})).await;
    let id = id_of(&slot);
    world.sent(&slot["upload"], "nonsense\n").await;
    for _ in 0..2 {
        submit(&world, id).await.refused(400, "no_valid_rows");
        assert_eq!(world.keys().await.len(), 2, "what was sent, and one copy of it");
    }
    world.sent(&slot["upload"], lines("corrected", 2)).await;
    let answer = submit(&world, id).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(world.urls(answer.run_key().job).await[0], "https://corrected.example/0");
    assert_eq!(world.keys().await.len(), 2, "what was replaced is gone");
}

async fn bytes_must_be_what_was_declared(world: OnS3) {
    let hex = |text: &str| Sha256::digest(text).iter().map(|b| format!("{b:02x}")).collect::<String>();
    let (right, other) = (lines("a", 1), lines("b", 1));
    let slot = world.slot(json!({"type": "lines", "size_bytes": right.len(), "sha256": hex(&right)})).await;
    let id = id_of(&slot);
    for wrong in [format!("{right}\n"), other.clone()] {
        let status = world.send(&slot["upload"], wrong).await.status();
        assert!(status.is_client_error(), "{status}");
    }
    submit(&world, id).await.refused(409, "file_input_not_uploaded");

    // Somebody with other means than the URL.
    for (bytes, code) in [(format!("{right}\n"), "upload_size_mismatch"), (other, "upload_checksum_mismatch")]
    {
        world.backend.blobs.put(&sent_key(id), bytes.into()).await.unwrap();
        submit(&world, id).await.refused(400, code);
        assert_eq!(world.shown(id).await["status"], "waiting");
    }
    world.sent(&slot["upload"], right.clone()).await;
    let shown = world.shown(id).await;
    assert_eq!((&shown["status"], &shown["sha256"]), (&json!("uploaded"), &json!(hex(&right))));
    assert_eq!(submit(&world, id).await.status, 201);
}

async fn a_list_has_a_largest_size(world: OnS3) {
    let small = OnS3::with(world.server, conveyor_api::ApiConfig { list_max_bytes: 100, ..config() }).await;
    let slot = small.slot(json!({"type": "lines"})).await;
    small.sent(&slot["upload"], vec![b'\n'; 101]).await;
    assert_eq!(small.shown(id_of(&slot)).await["status"], "waiting");
    submit(&small, id_of(&slot)).await.refused(413, "source_too_large");
    assert_eq!(small.keys().await.len(), 1, "nothing was copied");
}

async fn submits_at_once_read_one_copy(world: OnS3) {
    let slot = world.slot(json!({"type": "lines"})).await;
    let id = id_of(&slot);
    world.sent(&slot["upload"], lines("a", 3)).await;
    let answers = join_all((0..8).map(|_| submit(&world, id))).await;
    for answer in &answers {
        assert_eq!(answer.status, 201, "{}", answer.text());
        assert_eq!(world.urls(answer.run_key().job).await.len(), 3);
    }
    assert_eq!(world.keys().await.len(), 2, "what was sent, and one copy of it");
}

async fn lists_that_are_replaced_all_the_time_are_never_mixed(world: OnS3) {
    let slot = world.slot(json!({"type": "lines"})).await;
    let id = id_of(&slot);
    world.sent(&slot["upload"], lines("0", 1)).await;
    let replace = async {
        for n in 1..20 {
            world.sent(&slot["upload"], lines(&n.to_string(), n + 1)).await;
        }
    };
    let submits = join_all((0..6).map(|_| submit(&world, id)));
    let ((), answers) = tokio::join!(replace, submits);
    let mut made = std::collections::BTreeSet::new();
    for answer in &answers {
        if answer.status != 201 {
            answer.refused(409, "source_changed");
            continue;
        }
        let urls = world.urls(answer.run_key().job).await;
        assert_eq!(
            urls.join("\n") + "\n",
            lines(&(urls.len() - 1).to_string(), urls.len()),
            "one list, all of it"
        );
        made.insert(urls.len());
    }
    assert!(made.len() <= 1, "the first job fixes the list for all others: {made:?}");
}

async fn an_aborted_slot_leaves_nothing(world: OnS3) {
    let slot = world.slot(json!({"type": "lines"})).await;
    world.sent(&slot["upload"], "nonsense\n").await;
    submit(&world, id_of(&slot)).await.refused(400, "no_valid_rows");
    let parts = world.slot(json!({"type": "lines", "multipart": true})).await;
    assert_eq!((world.keys().await.len(), world.unfinished().await), (2, 1));
    for slot in [&slot, &parts] {
        let path = format!("/v1/job_inputs/{}", id_of(slot));
        assert_eq!(world.call("DELETE", &path, Some(KEY), None).await.status, 204);
        world.get(&path).await.refused(404, "file_input_not_found");
    }
    assert_eq!((world.keys().await.len(), world.unfinished().await), (0, 0));
}

async fn a_slot_that_could_not_be_made_leaves_nothing(world: OnS3) {
    for _ in 0..limits::UPLOADS_MAX {
        world.slot(json!({"type": "lines"})).await;
    }
    let one_more = world.post("/v1/job_inputs", json!({"type": "lines", "multipart": true})).await;
    one_more.refused(429, "quota_exceeded");
    assert_eq!(world.unfinished().await, 0);
}

async fn there_is_no_other_way_in(world: OnS3) {
    let slot = world.slot(json!({"type": "lines"})).await;
    let caller = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    for path in [
        format!("/v1/uploads/{caller}/{}?expires=9999999999&signature=x", id_of(&slot)),
        format!("/v1/uploads/{caller}/{}/parts/1?expires=9999999999&signature=x", id_of(&slot)),
    ] {
        world.call("PUT", &path, None, Some(Value::Null)).await.refused(404, "not_found");
    }
}

async fn a_long_list_is_counted_on_the_submit_if_there_is_time(world: OnS3) {
    for (seconds, accepted, is_final) in [(60, 9, true), (0, 0, false)] {
        let count_within = std::time::Duration::from_secs(seconds);
        let config = conveyor_api::ApiConfig { inline_tasks_max: 3, count_within, ..config() };
        let world = OnS3::with(world.server, config).await;
        let send = async |list: String| {
            let slot = world.slot(json!({"type": "lines"})).await;
            world.sent(&slot["upload"], list).await;
            submit(&world, id_of(&slot)).await
        };
        let answer = send(lines("a", 9)).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        let body = answer.json();
        assert_eq!((&body["accepted_tasks"], &body["total_is_final"]), (&json!(accepted), &json!(is_final)));
        assert!(body["latest_run"]["stats"]["total"].as_u64() > Some(0), "{body}");
        let broken = send(format!("{}{}", lines("a", 9), "x".repeat(limits::LINE_MAX_BYTES + 1))).await;
        match is_final {
            true => drop(broken.refused(400, "line_too_long")),
            false => assert_eq!(broken.status, 202, "its ingest says so"),
        }
    }
}

async fn tasks_of_a_long_body_are_staged_in_the_storage(world: OnS3) {
    let tasks: Vec<Value> = (0..10_000).map(|n| json!({"url": format!("https://a.example/{n}")})).collect();
    let answer = world.post("/v1/jobs", json!({"tasks": tasks})).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    assert_eq!(world.keys().await.len(), 1);
    let read = ingested(&world, answer.run_key()).await;
    assert_eq!(read.iter().filter(|byte| **byte == b'\n').count(), 10_000);
    let mut broken = tasks;
    broken[9_999] = json!({"url": "nonsense"});
    world.post("/v1/jobs", json!({"tasks": broken})).await.refused(400, "invalid_argument");
    assert_eq!(world.keys().await.len(), 1, "what came to nothing is gone");
}

async fn a_dry_run_reads_what_was_sent_and_copies_nothing(world: OnS3) {
    let list = lines("a", 3);
    let slot = world.slot(json!({"type": "lines", "size_bytes": list.len()})).await;
    let id = id_of(&slot);
    let dry = async || world.post("/v1/jobs?dry_run=true", json!({"file_input_id": id})).await;
    dry().await.refused(409, "file_input_not_uploaded");
    // Somebody with other means than the URL.
    world.backend.blobs.put(&sent_key(id), "x".into()).await.unwrap();
    dry().await.refused(400, "upload_size_mismatch");
    world.sent(&slot["upload"], list).await;
    let report = dry().await;
    assert_eq!(report.status, 200, "{}", report.text());
    assert_eq!((&report.json()["valid"], &report.json()["would_answer"]), (&json!(3), &json!(201)));
    assert_eq!(world.keys().await, [sent_key(id).to_string()], "no copy");
    assert_eq!(submit(&world, id).await.status, 201);
}
