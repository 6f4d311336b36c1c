//! Submits of staged lists (SPEC 6.10): written on the request if they are short, otherwise accepted.

use crate::world::{KEY, SECRET, World, config, golden};
use axum::body::Body;
use conveyor_domain::{Purpose, QueueName, Secret, limits};
use conveyor_store::port::{Reader, RunKey};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::io::Write;

fn lines(count: usize) -> String {
    (0..count).map(|n| format!("https://site.example/{n}\n")).collect()
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

async fn submit(world: &World, id: &str, more: Value) -> crate::world::Answer {
    let mut body = json!({"file_input_id": id});
    more.as_object().unwrap().iter().for_each(|(name, value)| body[name] = value.clone());
    world.post("/v1/jobs", body).await
}

async fn submit_lines(world: &World, list: impl Into<Body>, more: Value) -> crate::world::Answer {
    let id = world.staged(json!({"type": "lines"}), list).await;
    submit(world, &id, more).await
}

const MIXED: &str = "https://a.example/0\nftp://u:p@a.example/1?t=1\nhttps://a.example/2\n=1+1\n";

#[tokio::test]
async fn a_short_list_is_written_on_the_request_with_gaps() {
    let world = World::new().await;
    let answer = submit_lines(&world, MIXED, json!({"name": "n"})).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    golden("submit_short_list", &answer.json());
    let RunKey { job, run } = answer.run_key();
    let depth = world.backend.queue.depth(QueueName::Run(run), Reader::Role, world.now()).await.unwrap();
    assert_eq!(depth.visible, 2);
    let results = world.get(&format!("/v1/jobs/{job}/results")).await.json();
    let ids: Vec<&str> = results["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["task_id"].as_str().unwrap()[..8])
        .collect();
    assert_eq!(ids, ["00000000", "00000002"], "a rejected row keeps its place");
    assert_eq!(world.objects_under(&format!("jobs/{job}/runs/{run}/rejected")), 1);
}

#[tokio::test]
async fn each_format_is_read_as_its_slot_says() {
    let world = World::new().await;
    let csv = json!({"type": "csv", "csv": {
        "delimiter": ";", "header": true, "fields": {"url": "link", "external_id": "id"},
    }});
    for (slot, list) in [
        (csv, "id;link\na;https://a.example\nb;'https://b.example'\n".replace('\'', "\"")),
        (json!({"type": "csv"}), "url,external_id\nhttps://a.example,a\nhttps://b.example,b\n".to_owned()),
        (
            json!({"type": "jsonl"}),
            "{\"url\":\"https://a.example\",\"external_id\":\"a\"}\n\n{\"url\":\"https://b.example\",\"external_id\":\"b\"}"
                .to_owned(),
        ),
    ] {
        for bytes in [list.clone().into_bytes(), gzip(list.as_bytes())] {
            let id = world.staged(slot.clone(), bytes).await;
            let key = submit(&world, &id, json!({})).await.run_key();
            let results = world.get(&format!("/v1/jobs/{}/results", key.job)).await.json();
            let rows: Vec<_> = results["results"].as_array().unwrap().iter().collect();
            let text = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
            assert_eq!(rows.len(), 2, "{slot}");
            assert_eq!((text(rows[0], "url"), text(rows[0], "external_id")), ("https://a.example".into(), "a".into()));
            assert_eq!((text(rows[1], "url"), text(rows[1], "external_id")), ("https://b.example".into(), "b".into()));
        }
    }
}

#[tokio::test]
async fn a_list_of_ten_thousand_is_accepted_instead() {
    let world = World::new().await;
    let answer = submit_lines(&world, lines(limits::INLINE_TASKS_MAX), json!({})).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["accepted_tasks"]), (201, &json!(9_999)));
    for list in [lines(10_000).into_bytes(), gzip(lines(10_000).as_bytes())] {
        let answer = submit_lines(&world, list, json!({})).await;
        assert_eq!(answer.status, 202);
        let RunKey { job, .. } = answer.run_key();
        assert_eq!(answer.header("location"), format!("/v1/jobs/{job}"));
        assert_eq!(answer.header("retry-after"), "1");
        golden("submit_accepted", &answer.json());
        let depth = world.backend.queue.depth(QueueName::Control, Reader::Role, world.now()).await.unwrap();
        assert!(depth.visible > 0);
    }
}

#[tokio::test]
async fn a_list_that_is_large_in_bytes_is_not_written_on_the_request() {
    let world = World::new().await;
    let no_list = submit_lines(&world, vec![0xff; 4 << 20 | 1], json!({"on_invalid_rows": "fail"})).await;
    no_list.refused(400, "line_too_long");
    let padded = format!("{}{}", lines(2), "#\n".repeat(2 << 20));
    let answer = submit_lines(&world, padded, json!({"on_invalid_rows": "fail"})).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["accepted_tasks"]), (202, &json!(2)));
    let job = answer.run_key().job;
    let sealed = world.backend.store.changed_runs(None, world.now()).await.unwrap().active[0]
        .job
        .spec
        .credential
        .clone()
        .unwrap();
    let opened = Secret::new(SECRET).open(Purpose::Credential, &job.to_string(), &sealed).unwrap();
    assert_eq!(opened, KEY.as_bytes(), "the key is sealed for an accepted job too");
    let row = |n: u64| format!("https://a.example/{}/{}\n", n * 2_654_435_761, "x".repeat(1_900));
    let expands = gzip((0..9_000).map(row).collect::<String>().as_bytes());
    assert!(expands.len() < 1 << 20);
    assert_eq!(
        submit_lines(&world, expands, json!({})).await.status,
        202,
        "too much in memory for a request"
    );
}

#[tokio::test]
async fn invalid_rows_fail_a_list_if_the_caller_says_so() {
    let world = World::new().await;
    let answer = submit_lines(&world, MIXED, json!({"on_invalid_rows": "fail"})).await;
    answer.refused(400, "invalid_rows");
    golden("invalid_rows", &answer.json());
    assert_eq!(world.get("/v1/jobs").await.json(), json!({"jobs": []}));
    let good = submit_lines(&world, lines(2), json!({"on_invalid_rows": "fail"})).await;
    assert_eq!(good.status, 201);
}

#[tokio::test]
async fn a_list_that_cannot_be_taken_says_why() {
    let world = World::new().await;
    let refused = async |slot: Value, bytes: Vec<u8>, status: u16, code: &str| {
        let id = world.staged(slot, bytes).await;
        submit(&world, &id, json!({})).await.refused(status, code)
    };
    let as_lines = || json!({"type": "lines"});
    let whole = gzip(lines(100).as_bytes());
    refused(as_lines(), whole[..whole.len() - 9].to_vec(), 400, "source_truncated").await;
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 0xff;
    refused(as_lines(), flipped, 400, "source_corrupt").await;
    let mut long = lines(2).into_bytes();
    long.extend(vec![b'x'; limits::LINE_MAX_BYTES + 1]);
    let detail = refused(as_lines(), long, 400, "line_too_long").await;
    assert!(detail.starts_with("Line 3: "), "{detail}");
    let csv = json!({"type": "csv", "csv": {"header": true, "fields": {"url": "link"}}});
    let detail = refused(csv, b"url,id\nhttps://a.example,1\n".to_vec(), 400, "column_not_found").await;
    assert!(detail.contains("link"), "{detail}");
    for none in [&b""[..], b"\n\n# nothing\n", b"nonsense\n"] {
        refused(as_lines(), none.to_vec(), 400, "no_valid_rows").await;
    }
    assert_eq!(world.get("/v1/jobs").await.json(), json!({"jobs": []}));
}

#[tokio::test]
async fn limits_of_an_operator_hold_for_short_lists() {
    let mut config = config();
    config.run_tasks_max = 3;
    config.list_expanded_max_bytes = 1_000;
    let world = World::with(config).await;
    submit_lines(&world, lines(4), json!({})).await.refused(413, "too_many_rows");
    assert_eq!(submit_lines(&world, lines(3), json!({})).await.status, 201);
    let expands = gzip(lines(100).as_bytes());
    submit_lines(&world, expands, json!({})).await.refused(413, "expanded_too_large");
}

#[tokio::test]
async fn bytes_that_changed_behind_our_back_are_not_taken() {
    let world = World::new().await;
    let id = world.staged(json!({"type": "lines"}), lines(3)).await;
    let object = std::fs::read_dir(world.files().join("uploads").join(&id)).unwrap().next().unwrap().unwrap();
    std::fs::write(object.path(), lines(4)).unwrap();
    submit(&world, &id, json!({})).await.refused(409, "source_changed");
    std::fs::remove_file(object.path()).unwrap();
    submit(&world, &id, json!({})).await.refused(409, "source_changed");
}

#[tokio::test]
async fn a_submit_names_one_list_of_a_closed_job() {
    let world = World::new().await;
    let id = world.staged(json!({"type": "lines"}), lines(1)).await;
    let both = submit(&world, &id, json!({"tasks": [{"url": "https://a.example"}]})).await;
    both.refused(400, "invalid_argument");
    let open = submit(&world, &id, json!({"status": "open"})).await;
    open.refused(409, "file_input_unsupported_for_job_type");
    let alone =
        world.post("/v1/jobs", json!({"tasks": [{"url": "https://a.example"}], "on_invalid_rows": "skip"}));
    alone.await.refused(400, "invalid_argument");
    let empty = world.slot(json!({"type": "lines"})).await["file_input_id"].as_str().unwrap().to_owned();
    submit(&world, &empty, json!({})).await.refused(409, "file_input_not_uploaded");
    submit(&world, "01ARZ3NDEKTSV4RRFFQ69G5FAV", json!({})).await.refused(404, "file_input_not_found");
}

#[tokio::test]
async fn while_a_list_is_ingested_its_run_is_not_at_rest() {
    let world = World::new().await;
    let answer = submit_lines(&world, lines(10_000), json!({})).await;
    let RunKey { job, run } = answer.run_key();
    world.act(&format!("/v1/jobs/{job}/rerun")).await.refused(409, "run_not_terminal");
    let closed = world.act(&format!("/v1/jobs/{job}/close")).await.json();
    assert_eq!(closed["latest_run"]["last_batch_received"], false, "the list latches its run itself");
    let stopped = world.act(&format!("/v1/jobs/{job}/stop")).await.json();
    assert_eq!((&stopped["status"], &stopped["ingest_status"]), (&json!("stopped"), &json!("pending")));
    world.act(&format!("/v1/jobs/{job}/rerun?status=failed")).await.refused(409, "run_not_terminal");
    world.ingest(RunKey { job, run }, &[crate::ingest::cut(0)]).await;
    let again = world.act(&format!("/v1/jobs/{job}/rerun")).await;
    assert_eq!((again.status.as_u16(), &again.json()["retried_tasks"]), (202, &json!(10_000)));
}
