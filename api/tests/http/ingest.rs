//! How far the ingest of a list is, and which rows it rejected. The ingester is played by the tests.

use crate::world::{KEY, OTHER_KEY, World, golden};
use axum::body::Body;
use axum::http::Request;
use conveyor_domain::ingest::list::{Layout, Position};
use conveyor_domain::{Compression, IngestEvent, IngestState, ListFault, RunId, TaskInput};
use conveyor_store::port::{Appended, BlobKey, Chunk, Reader, RunKey};
use serde_json::json;

pub fn cut(total: u32) -> IngestEvent {
    IngestEvent::Cut { total }
}

pub fn pinned() -> IngestEvent {
    IngestEvent::SourcePinned { compression: Compression::None, layout: Layout::Lines }
}

pub fn chunk(chunk: u32, rows: u32, rejected: u32, index: u32, report: Option<String>) -> IngestEvent {
    let next = Position { offset: u64::from(index) * 20, line: index.into(), index };
    let (inherited, unknown) = (Default::default(), Default::default());
    IngestEvent::ChunkCommitted { chunk, rows, rejected, next, report, inherited, unknown }
}

impl World {
    /// Logs events of an ingest, a second apart, and does what they say.
    pub async fn ingest(&self, key: RunKey, events: &[IngestEvent]) {
        for event in events {
            self.pass_ms(1_000);
            let log = self.backend.store.ingest(key, Reader::Role).await.unwrap().unwrap().log;
            let state = IngestState::fold(&log).unwrap();
            let entry = state.entry(event.clone()).unwrap();
            let appended = if let IngestEvent::ChunkCommitted { rows, .. } = event {
                let task = |n: u32| (state.next.index + n, TaskInput::from_url("https://a.example").unwrap());
                let rows = (0..*rows).map(task).collect();
                let chunk = Chunk { rows, replayed: Vec::new(), entry };
                self.backend.store.commit_chunk(key, chunk, self.now()).await
            } else {
                self.backend.store.append(key, entry, self.now()).await
            };
            assert_eq!(appended.unwrap(), Appended::Done, "{event:?}");
        }
    }

    /// A run whose list waits to be ingested.
    pub async fn accepted(&self) -> RunKey {
        self.accepted_with(10_000).await
    }

    /// The same of so many rows, which must be more than are read on the request.
    pub async fn accepted_with(&self, rows: u32) -> RunKey {
        let list: String = (0..rows).map(|n| format!("https://site.example/{n}\n")).collect();
        let id = self.staged(json!({"type": "lines"}), list).await;
        let answer = self.post("/v1/jobs", json!({"file_input_id": id})).await;
        assert_eq!(answer.status, 202);
        answer.run_key()
    }

    async fn shown(&self, key: RunKey) -> serde_json::Value {
        let answer = self.get(&format!("/v1/jobs/{}/runs/{}/ingest", key.job, key.run)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    async fn report(&self, key: RunKey, chunk: u32, lines: &str) -> String {
        let object = BlobKey::rejected(
            key.job,
            key.run,
            conveyor_domain::WorkerId::from_bytes([9; 16]),
            u64::from(chunk),
        );
        self.backend.blobs.put(&object, lines.to_owned().into()).await.unwrap();
        object.to_string()
    }

    async fn rejected(&self, key: RunKey, query: &str, accept: Option<&str>) -> crate::world::Answer {
        let path = format!("/v1/jobs/{}/runs/{}/ingest/rejected{query}", key.job, key.run);
        let request = Request::get(path).header("x-api-key", KEY);
        let request = match accept {
            Some(value) => request.header("accept", value),
            None => request,
        };
        self.send(request.body(Body::empty()).unwrap()).await
    }
}

#[tokio::test]
async fn an_ingest_shows_how_far_it_is() {
    let world = World::new().await;
    let key = world.accepted().await;
    golden("ingest_waiting", &world.shown(key).await);
    world.ingest(key, &[pinned(), chunk(0, 40, 10, 50, None), chunk(1, 25, 25, 100, None)]).await;
    golden("ingest_reading", &world.shown(key).await);
    let run = world.get(&format!("/v1/jobs/{}", key.job)).await.json()["latest_run"].clone();
    assert_eq!((&run["stats"]["total"], &run["ingest_status"]), (&json!(10_000), &json!("pending")));

    let failed =
        |dead_lettered| IngestEvent::AttemptFailed { error: "the disk is away".into(), dead_lettered };
    world.ingest(key, &[failed(false), failed(true)]).await;
    let stalled = world.shown(key).await;
    assert_eq!((&stalled["state"], &stalled["attempts_failed"]), (&json!("stalled"), &json!(2)));
    assert_eq!(stalled["last_error"], "the disk is away");
    world
        .ingest(key, &[IngestEvent::Resent, IngestEvent::TotalSet { total: 65 }, IngestEvent::Latched])
        .await;
    golden("ingest_done", &world.shown(key).await);
}

/// One look is not to say that it is being read, and another that nobody reads it.
#[tokio::test]
async fn what_a_job_waits_for_is_where_its_list_is() {
    let world = World::new().await;
    let key = world.accepted().await;
    let waits = async || {
        let limits = world.get(&format!("/v1/jobs/{}/limits", key.job)).await.json();
        limits["waiting"]["detail"].as_str().unwrap().to_owned()
    };
    assert!(waits().await.contains("nobody has opened the list"));
    world.ingest(key, &[pinned()]).await;
    assert!(waits().await.contains("the list is being read"));
    let stalled = IngestEvent::AttemptFailed { error: "the disk is away".into(), dead_lettered: true };
    world.ingest(key, &[stalled]).await;
    let waiting = waits().await;
    assert!(waiting.contains("stalled") && !waiting.contains("being read"), "{waiting}");
    let leases = world.get("/v1/leases").await.json();
    assert_eq!(leases["leases"][0]["waiting"]["detail"], waiting);
}

#[tokio::test]
async fn an_ingest_that_ended_early_says_so() {
    let world = World::new().await;
    let key = world.accepted().await;
    let fault = ListFault::LineTooLong;
    let failed =
        IngestEvent::Failed { fault, detail: "too long".into(), line: Some(7), report: None, rejected: 0 };
    world.ingest(key, &[pinned(), failed]).await;
    golden("ingest_failed", &world.shown(key).await);
    let run = world.get(&format!("/v1/jobs/{}", key.job)).await.json()["latest_run"].clone();
    assert_eq!((&run["status"], &run["failure_reason"]), (&json!("failed"), &json!("ingest_failed")));
    assert_eq!(run["failure_detail"], "line_too_long: too long");
    let events = world.get(&format!("/v1/jobs/{}/events", key.job)).await.json();
    let failed =
        events["events"].as_array().unwrap().iter().find(|event| event["type"] == "run.failed").unwrap();
    assert_eq!(failed["data"]["failure_reason"], "line_too_long", "the timeline has the precise code");

    let key = world.accepted().await;
    world.ingest(key, &[pinned(), chunk(0, 3, 0, 3, None)]).await;
    world.act(&format!("/v1/jobs/{}/stop", key.job)).await;
    assert_eq!(world.shown(key).await["state"], "reading");
    world.ingest(key, &[cut(3)]).await;
    let shown = world.shown(key).await;
    assert_eq!((&shown["state"], &shown["rows_accepted"]), (&json!("cut"), &json!(3)));
    let run = world.get(&format!("/v1/jobs/{}", key.job)).await.json()["latest_run"].clone();
    assert_eq!((&run["status"], &run["ingest_status"]), (&json!("stopped"), &json!("done")));
}

const FIRST: &str =
    "{\"index\":1,\"line\":2,\"offset\":20,\"reason\":\"unsupported_scheme\",\"value\":\"ftp://a\"}\n";
const SECOND: &str = "{\"index\":60,\"line\":61,\"offset\":900,\"reason\":\"malformed_url\",\"value\":\"=HYPERLINK(\\\"x\\\",\\\"y\\\")\"}\n";

#[tokio::test]
async fn rejected_rows_are_streamed_in_order() {
    let world = World::new().await;
    let key = world.accepted().await;
    assert_eq!(world.rejected(key, "", None).await.text(), "", "none yet");
    let (first, second) = (world.report(key, 0, FIRST).await, world.report(key, 2, SECOND).await);
    let chunks =
        [chunk(0, 49, 1, 50, Some(first)), chunk(1, 5, 0, 55, None), chunk(2, 5, 1, 61, Some(second))];
    world.ingest(key, &[&[pinned()][..], &chunks].concat()).await;
    for (query, accept) in [("", None), ("?format=jsonl", Some("text/csv")), ("", Some("*/*"))] {
        let answer = world.rejected(key, query, accept).await;
        assert_eq!((answer.status.as_u16(), answer.text()), (200, format!("{FIRST}{SECOND}")));
        assert_eq!(answer.header("content-type"), "application/x-ndjson");
        let name = format!("attachment; filename=\"rejected-{}.jsonl\"", key.run);
        assert_eq!(answer.header("content-disposition"), name);
    }
    for (query, accept) in [("?format=csv", None), ("", Some("text/csv"))] {
        let answer = world.rejected(key, query, accept).await;
        assert_eq!(answer.header("content-type"), "text/csv; charset=utf-8");
        let expected = "index,line,offset,reason,value\r\n1,2,20,unsupported_scheme,ftp://a\r\n\
            60,61,900,malformed_url,\"'=HYPERLINK(\"\"x\"\",\"\"y\"\")\"\r\n";
        assert_eq!(answer.text(), expected);
    }
    world.rejected(key, "?format=xml", None).await.refused(400, "invalid_argument");
}

#[tokio::test]
async fn a_failed_ingest_has_a_report_too() {
    let world = World::new().await;
    let key = world.accepted().await;
    let report = Some(world.report(key, 0, FIRST).await);
    let fault = ListFault::InvalidRows;
    let failed = IngestEvent::Failed { fault, detail: "1 row".into(), line: None, report, rejected: 1 };
    world.ingest(key, &[pinned(), failed]).await;
    assert_eq!(world.rejected(key, "", None).await.text(), FIRST);
    assert_eq!(world.shown(key).await["rows_rejected"], 1);
}

#[tokio::test]
async fn a_list_that_was_written_on_the_request_has_all_of_it() {
    let world = World::new().await;
    let id = world.staged(json!({"type": "lines"}), "https://a.example\nnonsense\n").await;
    let key = world.submitted(json!({"file_input_id": id})).await;
    golden("ingest_short", &world.shown(key).await);
    let csv = world.rejected(key, "?format=csv", None).await.text();
    assert_eq!(csv, "index,line,offset,reason,value\r\n1,2,18,malformed_url,nonsense\r\n");
    let jsonl = world.rejected(key, "", None).await;
    assert_eq!(jsonl.json()["index"], 1, "{}", jsonl.text());
}

#[tokio::test]
async fn a_run_without_a_list_has_no_ingest() {
    let world = World::new().await;
    let key = world.submit("closed", 1).await;
    for rest in ["", "/rejected"] {
        let path = format!("/v1/jobs/{}/runs/{}/ingest{rest}", key.job, key.run);
        let detail = world.get(&path).await.refused(404, "not_found");
        assert!(detail.contains("staged list"), "{detail}");
        let other = world.call("GET", &path, Some(OTHER_KEY), None).await.refused(404, "not_found");
        assert_eq!(other, "There is no such resource.");
        let run = RunId::new(world.now(), &world.entropy);
        world.get(&format!("/v1/jobs/{}/runs/{run}/ingest{rest}", key.job)).await.refused(404, "not_found");
    }
}
