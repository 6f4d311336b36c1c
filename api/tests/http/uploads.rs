use crate::world::{KEY, OTHER_KEY, World, config, golden, path_of};
use axum::body::{Body, Bytes};
use axum::http::Request;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

fn id_of(slot: &Value) -> &str {
    slot["file_input_id"].as_str().unwrap()
}

#[tokio::test]
async fn a_slot_says_where_its_bytes_go() {
    let world = World::new().await;
    // Word for word what the batch client sends.
    let csv = json!({"type": "csv", "csv": {
        "delimiter": ",", "quote": "\"", "header": true, "fields": {"url": "link", "external_id": 2},
    }});
    let answer = world.post("/v1/job_inputs", csv).await;
    assert_eq!(answer.status, 201);
    golden("job_input", &answer.json());
    assert_eq!(answer.header("location"), format!("/v1/job_inputs/{}", id_of(&answer.json())));
    for (slot, content_type) in [
        (json!({"type": "csv"}), "text/csv"),
        (json!({"type": "csv", "csv": null}), "text/csv"),
        (json!({"type": "csv", "csv": {"fields": {"url": 0}}}), "text/csv"),
        (json!({"type": "jsonl"}), "application/x-ndjson"),
        (json!({"type": "lines"}), "text/plain"),
    ] {
        let slot = world.slot(slot).await;
        assert_eq!(slot["upload"]["headers"], json!({"Content-Type": content_type}));
    }
}

#[tokio::test]
async fn a_slot_that_makes_no_sense_is_refused() {
    let world = World::new().await;
    let csv = |csv: Value| json!({"type": "csv", "csv": csv});
    for (body, named) in [
        (json!({}), "`type`"),
        (json!({"type": "xml"}), "`type`"),
        (json!({"type": "lines", "csv": {"fields": {"url": 0}}}), "`csv`"),
        (json!({"type": "lines", "size": 3}), "`size`"),
        (json!({"type": "lines", "size_bytes": -1}), "`size_bytes`"),
        (json!({"type": "lines", "sha256": "abc"}), "`sha256`"),
        (json!({"type": "lines", "sha256": "g".repeat(64)}), "`sha256`"),
        (json!({"type": "lines", "multipart": 1}), "`multipart`"),
        (csv(json!([])), "`csv`"),
        (csv(json!({})), "`csv.fields`"),
        (csv(json!({"fields": {}})), "`csv.fields.url`"),
        (csv(json!({"fields": {"url": "link"}})), "`csv.fields.url`"),
        (csv(json!({"fields": {"url": 0, "external_id": "id"}})), "`csv.fields.external_id`"),
        (csv(json!({"header": true, "fields": {"url": ""}})), "`csv.fields.url`"),
        (csv(json!({"fields": {"url": -1}})), "`csv.fields.url`"),
        (csv(json!({"fields": {"url": 0, "name": 1}})), "`csv.fields.name`"),
        (csv(json!({"delimiter": "ab", "fields": {"url": 0}})), "`csv.delimiter`"),
        (csv(json!({"delimiter": "\n", "fields": {"url": 0}})), "`csv.delimiter`"),
        (csv(json!({"delimiter": "ä", "fields": {"url": 0}})), "`csv.delimiter`"),
        (csv(json!({"quote": "", "fields": {"url": 0}})), "`csv.quote`"),
        (csv(json!({"delimiter": "\"", "fields": {"url": 0}})), "`csv.quote`"),
        (csv(json!({"separator": ";", "fields": {"url": 0}})), "`csv.separator`"),
    ] {
        let detail =
            world.post("/v1/job_inputs?strict=true", body.clone()).await.refused(400, "invalid_argument");
        assert!(detail.contains(named), "{body}: {detail}");
    }
    let huge = json!({"type": "lines", "size_bytes": 1u64 << 40});
    world.post("/v1/job_inputs", huge).await.refused(413, "source_too_large");
}

#[tokio::test]
async fn bytes_are_staged_and_can_be_replaced_until_a_job_is_made_of_them() {
    let world = World::new().await;
    let slot = world.slot(json!({"type": "lines"})).await;
    let id = id_of(&slot);
    let shown = world.get(&format!("/v1/job_inputs/{id}")).await.json();
    assert_eq!(shown["status"], "waiting");

    let first = b"https://a.example/1\n";
    let put = world.put(&slot["upload"], &first[..]).await;
    assert_eq!(put.status, 200, "{}", put.text());
    assert_eq!(put.header("etag"), format!("\"{}\"", hex(first)));
    assert_eq!(put.json(), json!({"file_input_id": id, "size_bytes": first.len(), "sha256": hex(first)}));
    assert_eq!(world.objects_under(&format!("uploads/{id}")), 1);

    let second = b"https://a.example/2\nhttps://a.example/3\n";
    assert_eq!(world.put(&slot["upload"], &second[..]).await.status, 200);
    assert_eq!(world.objects_under(&format!("uploads/{id}")), 1, "what was replaced is gone");
    let shown = world.get(&format!("/v1/job_inputs/{id}")).await.json();
    golden("job_input_uploaded", &shown);

    let key = world.submitted(json!({"file_input_id": id})).await;
    assert_eq!(world.get(&format!("/v1/jobs/{}", key.job)).await.json()["latest_run"]["stats"]["total"], 2);
    world.put(&slot["upload"], &first[..]).await.refused(409, "file_input_claimed");
    assert_eq!(world.objects_under(&format!("uploads/{id}")), 1);
    let shown = world.get(&format!("/v1/job_inputs/{id}")).await.json();
    assert_eq!((shown["status"].as_str(), shown.get("upload")), (Some("claimed"), None));
    world.submitted(json!({"file_input_id": id})).await;
}

#[tokio::test]
async fn a_claimed_slot_is_refused_before_its_body_is_read() {
    let world = World::new().await;
    let slot = world.slot(json!({"type": "lines"})).await;
    world.put(&slot["upload"], "https://a.example\n").await;
    world.submitted(json!({"file_input_id": id_of(&slot)})).await;
    let never = Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
    world.put(&slot["upload"], never).await.refused(409, "file_input_claimed");
}

#[tokio::test]
async fn a_url_is_good_for_one_type_for_half_an_hour() {
    let world = World::new().await;
    let slot = world.slot(json!({"type": "csv"})).await;
    let target = &slot["upload"];
    for wrong in [None, Some("text/plain"), Some("text/csv; charset=utf-8")] {
        let detail = world.put_as(target, wrong, "url\n").await.refused(403, "signature_invalid");
        assert!(detail.contains("text/csv"), "{detail}");
    }
    let url = target["url"].as_str().unwrap();
    let other = world.slot(json!({"type": "csv"})).await;
    for edited in [
        url.replace("expires=", "expires=1"),
        url.replace("signature=", "signature=A"),
        url.split("&signature").next().unwrap().to_owned(),
        url.replace(id_of(&slot), id_of(&other)),
        url.replace("?", "/parts/1?"),
    ] {
        let answer = world.put_as(&json!({"url": edited}), Some("text/csv"), "url\n").await;
        answer.refused(403, "signature_invalid");
    }
    world.pass_ms(30 * MINUTE_MS - 1);
    assert_eq!(world.put(target, "https://a.example\n").await.status, 200);
    world.pass_ms(1);
    world.put(target, "https://a.example\n").await.refused(403, "signature_invalid");
    let fresh = world.get(&format!("/v1/job_inputs/{}", id_of(&slot))).await.json();
    assert_eq!(world.put(&fresh["upload"], "https://a.example\n").await.status, 200, "the slot goes on");
}

#[tokio::test]
async fn bytes_must_be_what_was_declared() {
    let world = World::new().await;
    let bytes = b"https://a.example\n";
    let declared =
        |size: usize, sha256: String| json!({"type": "lines", "size_bytes": size, "sha256": sha256});
    let slot = world.slot(declared(bytes.len(), hex(bytes).to_uppercase())).await;
    assert_eq!(world.put(&slot["upload"], &bytes[..]).await.status, 200);

    let slot = world.slot(declared(bytes.len() + 1, hex(bytes))).await;
    let detail = world.put(&slot["upload"], &bytes[..]).await.refused(400, "upload_size_mismatch");
    assert_eq!(detail, "19 bytes were declared, and there are 18.");
    let announced = Request::put(path_of(&slot["upload"])).header("content-type", "text/plain");
    let announced = announced.header("content-length", "5").body(Body::from("abcde")).unwrap();
    world.send(announced).await.refused(400, "upload_size_mismatch");

    let slot = world.slot(declared(bytes.len(), hex(b"other"))).await;
    world.put(&slot["upload"], &bytes[..]).await.refused(400, "upload_checksum_mismatch");
    let id = id_of(&slot);
    assert_eq!(world.objects_under(&format!("uploads/{id}")), 0, "nothing was kept");
    world.post("/v1/jobs", json!({"file_input_id": id})).await.refused(409, "file_input_not_uploaded");
}

#[tokio::test]
async fn a_list_has_a_largest_size() {
    let mut config = config();
    config.list_max_bytes = 100;
    let world = World::with(config).await;
    let slot = world.slot(json!({"type": "lines"})).await;
    assert_eq!(world.put(&slot["upload"], vec![b'\n'; 100]).await.status, 200);
    world.put(&slot["upload"], vec![b'\n'; 101]).await.refused(413, "source_too_large");
    let endless = futures::stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(&[b' '; 30])));
    world.put(&slot["upload"], Body::from_stream(endless)).await.refused(413, "source_too_large");
    let announced = Request::put(path_of(&slot["upload"])).header("content-type", "text/plain");
    let never = Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
    let announced = announced.header("content-length", "101").body(never).unwrap();
    world.send(announced).await.refused(413, "source_too_large");
    let kept = world.get(&format!("/v1/job_inputs/{}", id_of(&slot))).await.json();
    assert_eq!(kept["size_bytes"], 100, "the one before is still there");
}

#[tokio::test]
async fn a_body_that_is_broken_off_or_encoded_is_not_staged() {
    let world = World::new().await;
    let slot = world.slot(json!({"type": "lines"})).await;
    let pieces = [Ok(Bytes::from_static(b"https://a")), Err(std::io::Error::other("reset"))];
    let broken = Body::from_stream(futures::stream::iter(pieces));
    world.put(&slot["upload"], broken).await.refused(400, "invalid_argument");
    let with = |name: &str, value: &str| {
        let put = Request::put(path_of(&slot["upload"])).header("content-type", "text/plain");
        put.header(name, value).body(Body::from("https://a.example\n")).unwrap()
    };
    world.send(with("content-length", "99")).await.refused(400, "invalid_argument");
    world.send(with("content-encoding", "gzip")).await.refused(415, "unsupported_media_type");
    assert_eq!(world.send(with("content-encoding", "identity")).await.status, 200);
    assert_eq!(world.objects_under(&format!("uploads/{}", id_of(&slot))), 1);
}

#[tokio::test]
async fn slots_are_listed_aborted_and_expire() {
    let world = World::new().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        world.pass_ms(1);
        ids.insert(0, id_of(&world.slot(json!({"type": "lines"})).await).to_owned());
    }
    let names = |page: &Value| -> Vec<String> {
        page["job_inputs"].as_array().unwrap().iter().map(|slot| id_of(slot).to_owned()).collect()
    };
    let first = world.get("/v1/job_inputs?limit=2").await.json();
    golden("job_inputs", &first);
    assert_eq!(names(&first), ids[..2]);
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = world.get(&format!("/v1/job_inputs?limit=2&cursor={cursor}")).await.json();
    assert_eq!((names(&rest), rest.get("next_cursor")), (vec![ids[2].clone()], None));

    let path = format!("/v1/job_inputs/{}", ids[0]);
    let slot = world.get(&path).await.json();
    world.put(&slot["upload"], "https://a.example\n").await;
    let aborted = world.call("DELETE", &path, Some(KEY), None).await;
    assert_eq!((aborted.status.as_u16(), aborted.body.len()), (204, 0));
    assert_eq!(world.objects_under(&format!("uploads/{}", ids[0])), 0);
    world.call("DELETE", &path, Some(KEY), None).await.refused(404, "file_input_not_found");
    world.put(&slot["upload"], "https://a.example\n").await.refused(404, "file_input_not_found");
    world.post("/v1/jobs", json!({"file_input_id": ids[0]})).await.refused(404, "file_input_not_found");

    let claimed = world.staged(json!({"type": "lines"}), "https://a.example\n").await;
    world.submitted(json!({"file_input_id": claimed})).await;
    let path = format!("/v1/job_inputs/{claimed}");
    world.call("DELETE", &path, Some(KEY), None).await.refused(409, "file_input_claimed");

    world.pass_ms(DAY_MS);
    assert_eq!(world.get("/v1/job_inputs").await.json(), json!({"job_inputs": []}));
    world.get(&path).await.refused(404, "file_input_not_found");
    world.post("/v1/jobs", json!({"file_input_id": claimed})).await.refused(404, "file_input_not_found");
}

#[tokio::test]
async fn anothers_slot_is_not_there() {
    let world = World::new().await;
    let slot = world.slot(json!({"type": "lines", "multipart": true})).await;
    let whole = world.staged(json!({"type": "lines"}), "https://a.example\n").await;
    for id in [id_of(&slot), &whole, "not-an-id"] {
        for (method, rest, body) in [
            ("GET", "", None),
            ("DELETE", "", None),
            ("POST", "/parts", Some(json!({"nonsense": 1}))),
            ("POST", "/complete", None),
        ] {
            let path = format!("/v1/job_inputs/{id}{rest}");
            let answer = world.call(method, &path, Some(OTHER_KEY), body.clone()).await;
            answer.refused(404, "file_input_not_found");
            world.call(method, &path, None, body).await.refused(401, "unauthenticated");
        }
        let submit = Some(json!({"file_input_id": id}));
        let answer = world.call("POST", "/v1/jobs", Some(OTHER_KEY), submit).await;
        answer.refused(404, "file_input_not_found");
    }
    let listed = world.call("GET", "/v1/job_inputs", Some(OTHER_KEY), None).await;
    assert_eq!(listed.json(), json!({"job_inputs": []}));
    assert_eq!(world.get("/v1/job_inputs").await.json()["job_inputs"].as_array().unwrap().len(), 2);
}
