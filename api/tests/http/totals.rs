//! What a run of a list will come to, before all of it is there (SPEC 6.10, 6.11, 10).

use crate::ingest::{chunk, pinned};
use crate::world::{Answer, KEY, World, config};
use bytes::Bytes;
use conveyor_api::ApiConfig;
use conveyor_domain::{Format, IngestEvent, Quotas, Staged, UploadId, WorkerId};
use conveyor_store::port::{BlobKey, RunKey};
use flate2::write::GzEncoder;
use futures::StreamExt;
use serde_json::{Value, json};
use std::io::Write;

/// A server that reads lists of up to three rows on the request.
async fn small() -> World {
    World::with(ApiConfig { inline_tasks_max: 3, ..config() }).await
}

fn lines(count: usize) -> String {
    (0..count).map(|n| format!("https://a.example/{n}\n")).collect()
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

async fn submit(world: &World, id: &str, more: Value) -> Answer {
    let mut body = json!({"file_input_id": id});
    more.as_object().unwrap().iter().for_each(|(name, value)| body[name] = value.clone());
    world.post("/v1/jobs", body).await
}

async fn submit_list(world: &World, slot: Value, list: impl Into<axum::body::Body>, more: Value) -> Answer {
    let id = world.staged(slot, list).await;
    submit(world, &id, more).await
}

impl World {
    /// A list as an earlier version staged it: nobody has counted it.
    pub async fn staged_uncounted(&self, list: String) -> String {
        let slot = self.slot(json!({"type": "lines"})).await;
        let id = slot["file_input_id"].as_str().unwrap().to_owned();
        let upload: UploadId = id.parse().unwrap();
        let key = BlobKey::upload(upload, WorkerId::from_bytes([5; 16]), 0);
        let bytes = futures::stream::iter([Ok(Bytes::from(list))]).boxed();
        let stored = self.backend.blobs.put_stream(&key, bytes).await.unwrap();
        let staged = Staged::new(key.to_string(), stored.size, stored.etag);
        self.backend.store.put_staged(upload, staged, None, self.now()).await.unwrap();
        id
    }

    /// Submits a list, which does what a dry run says of it.
    pub async fn submit_as_foretold(&self, id: &str, more: Value) -> Answer {
        let mut body = more.clone();
        body["file_input_id"] = id.into();
        let dry = self.post("/v1/jobs?dry_run=true", body).await;
        let answer = submit(self, id, more.clone()).await;
        let foretold = match dry.status.as_u16() {
            200 => dry.json()["would_answer"].clone(),
            _ => {
                assert_eq!(dry.code(), answer.code(), "{more}");
                dry.status.as_u16().into()
            }
        };
        assert_eq!(foretold, answer.status.as_u16(), "{more}: {}", answer.text());
        answer
    }

    /// As a poller sees it: how many are done, of how many, and whether that is final.
    async fn polled(&self, key: RunKey) -> (u64, u64, bool) {
        let run = self.get(&format!("/v1/jobs/{}/runs/{}", key.job, key.run)).await.json();
        let job = self.get(&format!("/v1/jobs/{}", key.job)).await.json();
        assert_eq!(job["latest_run"]["stats"], run["stats"]);
        let listed = self.get(&format!("/v1/jobs/{}/runs", key.job)).await.json();
        assert_eq!(listed["runs"][0]["stats"], run["stats"]);
        let stats = &run["stats"];
        let number = |name: &str| stats[name].as_u64().unwrap();
        let is_final = stats.get("total_is_final").is_none_or(|value| value.as_bool().unwrap());
        (number("completed"), number("total"), is_final)
    }

    async fn complete(&self, key: RunKey, indexes: std::ops::Range<u32>) {
        for index in indexes {
            self.succeed(key, index, Format::Html, b"x").await;
        }
    }
}

#[tokio::test]
async fn the_total_of_a_counted_list_is_final_in_the_answer() {
    let world = small().await;
    let list = format!("{}nonsense\n{}", lines(3), lines(2));
    for bytes in [list.clone().into_bytes(), gzip(&list)] {
        let answer = submit_list(&world, json!({"type": "lines"}), bytes, json!({})).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        let (body, key) = (answer.json(), answer.run_key());
        assert_eq!((&body["accepted_tasks"], &body["total_is_final"]), (&json!(5), &json!(true)));
        assert_eq!(body["latest_run"]["stats"]["total"], 5);
        assert_eq!(world.polled(key).await, (0, 5, true));
        world.ingest(key, &[pinned(), chunk(0, 2, 0, 2, None)]).await;
        world.complete(key, 0..2).await;
        assert_eq!(world.polled(key).await, (2, 5, true));
        world.ingest(key, &[chunk(1, 3, 1, 6, None)]).await;
        world.ingest(key, &[IngestEvent::TotalSet { total: 5 }, IngestEvent::Latched]).await;
        assert_eq!(world.polled(key).await, (2, 5, true));
    }
}

/// Nobody who polls `completed >= total` stops before the list is read.
#[tokio::test]
async fn a_list_that_nobody_has_counted_is_never_seen_done_while_it_is_read() {
    let world = small().await;
    for counted in [false, true] {
        let id = world.staged_uncounted(lines(6)).await;
        let answer = submit(&world, &id, json!({})).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        let (body, key) = (answer.json(), answer.run_key());
        assert_eq!((&body["accepted_tasks"], &body["total_is_final"]), (&json!(0), &json!(false)));
        assert_eq!(body["latest_run"]["stats"]["total_is_final"], false);
        assert_eq!(world.polled(key).await, (0, 1, false));
        world.ingest(key, &[pinned()]).await;
        if counted {
            world.ingest(key, &[IngestEvent::Counted { records: 6, rows: 6 }]).await;
            assert_eq!(world.polled(key).await, (0, 6, true));
        }
        world.ingest(key, &[chunk(0, 3, 0, 3, None)]).await;
        world.complete(key, 0..3).await;
        assert_eq!(world.polled(key).await, if counted { (3, 6, true) } else { (3, 4, false) });
        world.ingest(key, &[chunk(1, 3, 0, 6, None), IngestEvent::TotalSet { total: 6 }]).await;
        world.complete(key, 3..6).await;
        assert_eq!(world.polled(key).await, if counted { (6, 6, true) } else { (6, 7, false) });
        world.ingest(key, &[IngestEvent::Latched]).await;
        assert_eq!(world.polled(key).await, (6, 6, true));
        let jobs = world.get("/v1/jobs").await.json();
        assert_eq!(jobs["jobs"][0]["latest_run"]["stats"]["total"], 6);
    }
}

#[tokio::test]
async fn a_run_that_is_stopped_has_what_was_written() {
    let world = small().await;
    let key = submit_list(&world, json!({"type": "lines"}), lines(9), json!({})).await.run_key();
    world.ingest(key, &[pinned(), chunk(0, 4, 0, 4, None)]).await;
    world.complete(key, 0..1).await;
    world.act(&format!("/v1/jobs/{}/stop", key.job)).await;
    assert_eq!(world.polled(key).await, (1, 4, true));
    world.ingest(key, &[crate::ingest::cut(4)]).await;
    assert_eq!(world.polled(key).await, (1, 4, true));
    let again = world.act(&format!("/v1/jobs/{}/rerun", key.job)).await;
    let body = again.json();
    assert_eq!((&body["retried_tasks"], &body["total_is_final"]), (&json!(9), &json!(true)));
    assert_eq!(world.polled(again.run_key()).await, (0, 9, true));
}

#[tokio::test]
async fn a_rerun_that_is_ingested_knows_its_total() {
    let world = small().await;
    let tasks: Vec<_> = (0..6).map(|n| json!({"url": format!("https://a.example/{n}")})).collect();
    let answer = world.post("/v1/jobs", json!({"tasks": tasks})).await;
    let key = answer.run_key();
    assert_eq!((answer.status.as_u16(), &answer.json()["total_is_final"]), (202, &json!(true)));
    assert_eq!(world.polled(key).await, (0, 6, true), "all tasks of a body were checked");
    let rows = [pinned(), chunk(0, 6, 0, 6, None), IngestEvent::TotalSet { total: 6 }, IngestEvent::Latched];
    world.ingest(key, &rows).await;
    world.complete(key, 0..2).await;
    world.fail(key, 2).await;
    world.act(&format!("/v1/jobs/{}/stop", key.job)).await;
    let rerun = format!("/v1/jobs/{}/rerun?status=failed", key.job);
    let again = world.act(&rerun).await;
    assert_eq!(again.status, 202, "{}", again.text());
    let body = again.json();
    assert_eq!((&body["retried_tasks"], &body["inherited_tasks"]), (&json!(1), &json!(5)));
    assert_eq!(body["latest_run"]["stats"]["total"], 6);
    assert_eq!(world.polled(again.run_key()).await, (0, 6, true));
}

/// `addTasks` may raise it as soon as these are read.
#[tokio::test]
async fn the_total_of_an_open_job_is_never_final() {
    let world = small().await;
    let tasks: Vec<_> = (0..6).map(|n| json!({"url": format!("https://a.example/{n}")})).collect();
    let answer = world.post("/v1/jobs", json!({"tasks": tasks, "status": "open"})).await;
    let body = answer.json();
    assert_eq!((answer.status.as_u16(), &body["status"]), (202, &json!("open")));
    assert_eq!((&body["accepted_tasks"], &body["total_is_final"]), (&json!(6), &json!(false)));
}

/// Counters that were damaged, in whichever direction, are no reason to refuse a rerun, and none for a wrong total.
#[tokio::test]
async fn a_rerun_counts_where_counters_do_not_tell() {
    let world = small().await;
    let key = submit_list(&world, json!({"type": "lines"}), lines(6), json!({})).await.run_key();
    let rows = [pinned(), chunk(0, 6, 0, 6, None), IngestEvent::TotalSet { total: 6 }, IngestEvent::Latched];
    world.ingest(key, &rows).await;
    world.complete(key, 0..3).await;
    world.fail(key, 3).await;
    world.act(&format!("/v1/jobs/{}/stop", key.job)).await;
    let damage = async |statement: &str, query: &str, retried: u64| {
        let connection = rusqlite::Connection::open(world.files().with_file_name("conveyor.db")).unwrap();
        connection.execute(statement, []).unwrap();
        drop(connection);
        let again = world.act(&format!("/v1/jobs/{}/rerun?status={query}", key.job)).await;
        assert_eq!(again.status, 202, "{}", again.text());
        let body = again.json();
        assert_eq!(
            (&body["retried_tasks"], &body["inherited_tasks"]),
            (&json!(retried), &json!(6 - retried))
        );
        assert_eq!(
            (&body["latest_run"]["stats"]["total"], &body["total_is_final"]),
            (&json!(6), &json!(true))
        );
        let again = again.run_key();
        world.act(&format!("/v1/jobs/{}/stop", key.job)).await;
        world.ingest(again, &[crate::ingest::cut(0)]).await;
        assert_eq!(world.delete_run(again).await.status, 202);
    };
    damage("UPDATE counters SET successful = successful + 7", "successful", 3).await;
    damage("UPDATE counters SET successful = 0, bad_target = 0", "failed", 1).await;
}

#[tokio::test]
async fn what_a_list_cannot_be_taken_for_is_said_by_the_submit() {
    let world = World::with(ApiConfig { inline_tasks_max: 3, run_tasks_max: 50, ..config() }).await;
    let as_lines = || json!({"type": "lines"});
    let refused = async |slot: Value, list: Vec<u8>, more: Value, status: u16, code: &str| {
        let id = world.staged(slot, list).await;
        world.submit_as_foretold(&id, more).await.refused(status, code)
    };
    let mut random = 7_u64;
    let mut noise = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        random >> 33
    };
    let whole =
        gzip(&(0..40).map(|_| format!("https://a.example/{:x}{:x}\n", noise(), noise())).collect::<String>());
    refused(as_lines(), whole[..whole.len() - 9].to_vec(), json!({}), 400, "source_truncated").await;
    let detail = refused(as_lines(), lines(51).into_bytes(), json!({}), 413, "too_many_rows").await;
    assert_eq!(detail, "Line 51: more than 50 records.");
    let csv = json!({"type": "csv", "csv": {"header": true, "fields": {"url": "link"}}});
    refused(csv, b"url\nhttps://a.example\n".to_vec(), json!({}), 400, "column_not_found").await;
    let mut long = lines(10).into_bytes();
    long.extend(vec![b'x'; conveyor_domain::limits::LINE_MAX_BYTES + 1]);
    let detail = refused(as_lines(), long, json!({}), 400, "line_too_long").await;
    assert!(detail.starts_with("Line 11: "), "{detail}");
    let none = "nonsense\n".repeat(9).into_bytes();
    let detail = refused(as_lines(), none, json!({}), 400, "no_valid_rows").await;
    assert_eq!(detail, "None of 9 rows is valid.");
    let mixed = format!("{}nonsense\nftp://b.example\n", lines(8)).into_bytes();
    let answer = submit_list(&world, as_lines(), mixed.clone(), json!({"on_invalid_rows": "fail"})).await;
    assert_eq!(answer.refused(400, "invalid_rows"), "2 of 10 rows are invalid.");
    let first = json!([{"index": 8, "line": 9, "reason": "malformed_url", "value": "nonsense"}]);
    assert_eq!(answer.json()["invalid_tasks"], first);
    // Invalid rows take places too.
    let many = format!("{}{}", lines(45), "nonsense\n".repeat(6)).into_bytes();
    refused(as_lines(), many, json!({}), 413, "too_many_rows").await;
    refused(as_lines(), b"\n\n".to_vec(), json!({"on_invalid_rows": "fail"}), 400, "no_valid_rows").await;
    let jsonl =
        "{\"url\":\"https://a.example\",\"method\":\"POST\"}\n".repeat(9) + "{\"url\":\"nonsense\"}\n";
    let conditional = json!({"zenrows_params": {"js_render": true}, "on_invalid_rows": "fail"});
    let slot = json!({"type": "jsonl"});
    refused(slot, jsonl.clone().into_bytes(), conditional, 400, "invalid_rows").await;
    assert_eq!(world.get("/v1/jobs").await.json(), json!({"jobs": []}));
    let id = world.staged(as_lines(), mixed).await;
    let taken = world.submit_as_foretold(&id, json!({})).await;
    assert_eq!(taken.json()["accepted_tasks"], 8);
}

#[tokio::test]
async fn a_short_list_has_as_many_records_as_a_run_takes() {
    let world = World::with(ApiConfig { inline_tasks_max: 10, run_tasks_max: 5, ..config() }).await;
    for (list, status) in [(lines(5), 201), (format!("nonsense\n{}", lines(4)), 201), (lines(6), 413)] {
        let id = world.staged(json!({"type": "lines"}), list).await;
        assert_eq!(world.submit_as_foretold(&id, json!({})).await.status, status);
    }
    let id = world.staged(json!({"type": "lines"}), format!("nonsense\n{}", lines(5))).await;
    world.submit_as_foretold(&id, json!({})).await.refused(413, "too_many_rows");
}

/// Rows that a job's parameters could make invalid are not counted for certain.
#[tokio::test]
async fn parameters_of_the_job_can_leave_a_count_open() {
    let world = small().await;
    let rows = r#"{"url":"https://a.example/0","method":"POST"}
{"url":"https://a.example/1"}
{"url":"https://a.example/2","zenrows_params":{"wait":5}}
{"url":"https://a.example/3"}
"#;
    let id = world.staged(json!({"type": "jsonl"}), rows).await;
    for (params, accepted, is_final) in
        [(json!({}), 4, true), (json!({"wait": 7}), 4, true), (json!({"js_render": true}), 2, false)]
    {
        let answer = submit(&world, &id, json!({"zenrows_params": params})).await;
        let body = answer.json();
        assert_eq!((&body["accepted_tasks"], &body["total_is_final"]), (&json!(accepted), &json!(is_final)));
        assert_eq!(world.polled(answer.run_key()).await, (0, accepted, is_final));
    }
}

#[tokio::test]
async fn parts_are_counted_when_they_are_joined() {
    let world = small().await;
    let id = world.slot(json!({"type": "lines", "multipart": true})).await["file_input_id"].clone();
    let path = |rest: &str| format!("/v1/job_inputs/{}{rest}", id.as_str().unwrap());
    let targets = world.post(&path("/parts"), json!({"numbers": [1, 2]})).await.json();
    let list = lines(9);
    for (number, part) in [list[..50].to_owned(), list[50..].to_owned()].into_iter().enumerate() {
        assert_eq!(world.put(&targets["parts"][number], part).await.status, 200);
    }
    assert_eq!(world.act(&path("/complete")).await.status, 200);
    let answer = submit(&world, id.as_str().unwrap(), json!({})).await;
    assert_eq!(
        (&answer.json()["accepted_tasks"], &answer.json()["total_is_final"]),
        (&json!(9), &json!(true))
    );
}

#[tokio::test]
async fn a_list_of_a_schedule_knows_what_its_runs_will_have() {
    let world = small().await;
    let schedule = json!({"rate": {"every": 1, "unit": "hour"}});
    let scheduled = json!({"type": "scheduled", "schedule": schedule});
    for (count, uncounted) in [(2, false), (9, false), (9, true)] {
        let id = match uncounted {
            true => world.staged_uncounted(lines(count)).await,
            false => world.staged(json!({"type": "lines"}), lines(count)).await,
        };
        let made = submit(&world, &id, scheduled.clone()).await;
        assert_eq!(made.status, 201, "{}", made.text());
        let (body, accepted) = (made.json(), if uncounted { 0 } else { count });
        assert_eq!(
            (&body["accepted_tasks"], &body["total_is_final"]),
            (&json!(accepted), &json!(!uncounted))
        );
        let job = body["job_id"].as_str().unwrap().to_owned();
        let fired = world.act(&format!("/v1/jobs/{job}/rerun")).await;
        assert_eq!((fired.status.as_u16(), &fired.json()["retried_tasks"]), (202, &json!(accepted)));
        let total = if uncounted { 1 } else { count as u64 };
        assert_eq!(world.polled(fired.run_key()).await, (0, total, !uncounted));
    }
    let long = format!("{}{}", lines(9), "x".repeat(conveyor_domain::limits::LINE_MAX_BYTES + 1));
    let id = world.staged(json!({"type": "lines"}), long).await;
    submit(&world, &id, scheduled).await.refused(400, "line_too_long");
}

#[tokio::test]
async fn an_upload_does_not_pass_the_quota_of_queued_tasks() {
    let quotas = Quotas { queued_tasks: Some(150), ..Quotas::default() };
    let world = World::with(ApiConfig { quotas, ..config() }).await;
    let answer = submit_list(&world, json!({"type": "lines"}), lines(20_000), json!({})).await;
    let detail = answer.refused(429, "quota_exceeded");
    assert!(detail.contains("`queued_tasks` is 150: 0 are used, and 20000 more"), "{detail}");
    assert_eq!(world.get("/v1/jobs").await.json(), json!({"jobs": []}));
    // Of one that nobody has counted one row is known: its ingest asks for the rest.
    let id = world.staged_uncounted(lines(20_000)).await;
    assert_eq!(submit(&world, &id, json!({})).await.status, 202);
    let path = format!(
        "callers/{}",
        world.backend.store.caller_of(conveyor_domain::KeyHash::of(KEY)).await.unwrap().unwrap()
    );
    assert_eq!(world.operate("GET", &path, None).await.json()["usage"]["queued_tasks"], 1);
}
