//! What becomes of good, bad and broken lists.

use crate::world::{World, lines, small_chunks};
use conveyor_domain::job::run::Expected;
use conveyor_domain::job::task_input::Reason;
use conveyor_domain::{
    FailureReason, IngestEvent, IngestStatus, ListFault, ListSpec, OnInvalidRows, Quotas, RunStatus,
};
use conveyor_ingest::{End, IngestConfig};
use conveyor_store::port::RunKey;
use std::io::Write;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn every_row_becomes_one_task_in_order() {
    let world = World::new();
    let key = world.accept_lines(&lines(37)).await;
    assert_eq!(world.ingest(key).await, End::Over);
    let view = world.view(key).await;
    assert_eq!((view.latest_run().stats.total, view.latest_run().run.next_index), (37, 37));
    assert_eq!(view.latest_run().run.ingest, Some(IngestStatus::Done));
    assert!(view.latest_run().run.latched);
    let tasks = world.tasks(key).await;
    let urls: Vec<_> = tasks.iter().map(|task| task.input.url.clone()).collect();
    let expected: Vec<_> = (0..37).map(|n| format!("https://example.com/{n}")).collect();
    assert_eq!(urls, expected);
    assert_eq!(world.queued(key).await, (0..37).collect());
    let names: Vec<_> = world.log(key).await.iter().map(IngestEvent::name).collect();
    let chunks = ["chunk_committed"; 4];
    let expected: Vec<_> =
        [&["accepted", "source_pinned", "counted"][..], &chunks, &["total_set", "latched"]].concat();
    assert_eq!(names, expected);
}

#[tokio::test]
async fn a_rejected_row_keeps_its_index_and_is_reported() {
    let world = World::new();
    let text = "https://a.example\nnot a url\nhttps://b.example\n\nftp://c.example\nhttps://d.example\n";
    let key = world.accept_lines(text).await;
    world.ingest(key).await;
    let indexes: Vec<_> = world.tasks(key).await.iter().map(|task| task.id.index()).collect();
    assert_eq!(indexes, [0, 2, 4]);
    let view = world.view(key).await;
    assert_eq!((view.latest_run().stats.total, view.latest_run().run.next_index), (3, 5));
    let rejected = world.rejected(key).await;
    let places: Vec<_> = rejected.iter().map(|r| (r.index, r.line, r.offset, r.reason)).collect();
    assert_eq!(places, [(1, 2, 18, Reason::MalformedUrl), (3, 5, 47, Reason::UnsupportedScheme)]);
}

#[tokio::test]
async fn with_fail_nothing_starts_if_any_row_is_bad() {
    let world = World::new();
    let text = format!("{}nonsense\n", lines(35));
    let key = world.accept(text.as_bytes(), ListSpec::Lines, OnInvalidRows::Fail).await;
    assert_eq!(world.ingest(key).await, End::Over);
    failed_with(&world, key, ListFault::InvalidRows).await;
    assert!(world.tasks(key).await.is_empty());
    assert_eq!(world.rejected(key).await[0].line, 36);

    let key = world.accept(lines(35).as_bytes(), ListSpec::Lines, OnInvalidRows::Fail).await;
    assert_eq!(world.ingest(key).await, End::Over);
    assert_eq!(world.view(key).await.latest_run().stats.total, 35);
}

#[tokio::test]
async fn a_compressed_list_is_the_same_list() {
    let world = World::new();
    for compress in [gzip, zstd] {
        let bytes = compress(lines(123).as_bytes());
        let key = world.accept(&bytes, ListSpec::Lines, OnInvalidRows::Skip).await;
        assert_eq!(world.ingest(key).await, End::Over);
        assert_eq!(world.tasks(key).await.len(), 123);
    }
}

#[tokio::test]
async fn a_broken_list_fails_its_run_with_its_own_code() {
    let world = World::new();
    let whole = gzip(lines(2_000).as_bytes());
    let mut flipped = whole.clone();
    let middle = flipped.len() - 6;
    flipped[middle] ^= 0xff;
    let long = format!("https://a.example\nhttps://a.example/{}\n", "x".repeat(300_000));
    let bombed = gzip("https://a.example/\n".repeat(2_000_000).as_bytes());
    let cases: [(&[u8], ListFault); 6] = [
        (&whole[..whole.len() - 3], ListFault::SourceTruncated),
        (&flipped, ListFault::SourceCorrupt),
        (long.as_bytes(), ListFault::LineTooLong),
        (b"", ListFault::NoValidRows),
        (b"one\ntwo\n", ListFault::NoValidRows),
        (&bombed, ListFault::ExpansionRatioExceeded),
    ];
    for (bytes, fault) in cases {
        let key = world.accept(bytes, ListSpec::Lines, OnInvalidRows::Skip).await;
        let config = IngestConfig { chunk_rows: 5_000, run_tasks_max: 5_000_000, ..small_chunks() };
        let end = world.ingester(config).ingest(key, &CancellationToken::new()).await.unwrap();
        assert_eq!(end, End::Over, "{fault}");
        failed_with(&world, key, fault).await;
    }
}

#[tokio::test]
async fn limits_fail_with_their_own_code() {
    let world = World::new();
    let cases = [
        (IngestConfig { run_tasks_max: 99, ..small_chunks() }, ListFault::TooManyRows),
        (IngestConfig { list_max_bytes: 100, ..small_chunks() }, ListFault::SourceTooLarge),
        (IngestConfig { list_expanded_max_bytes: 100, ..small_chunks() }, ListFault::ExpandedTooLarge),
    ];
    for (config, fault) in cases {
        let key = world.accept_lines(&lines(100)).await;
        let end = world.ingester(config).ingest(key, &CancellationToken::new()).await.unwrap();
        assert_eq!(end, End::Over);
        failed_with(&world, key, fault).await;
        assert_eq!(world.view(key).await.latest_run().stats.total, 0, "before its first task");
    }
    let exactly = IngestConfig { run_tasks_max: 100, ..small_chunks() };
    let key = world.accept_lines(&lines(100)).await;
    world.ingester(exactly).ingest(key, &CancellationToken::new()).await.unwrap();
    assert_eq!(world.view(key).await.latest_run().stats.total, 100);
}

#[tokio::test]
async fn a_list_is_counted_before_its_first_task() {
    let world = World::new();
    let text = format!("{}bad\n", lines(35));
    let key = world.accept(text.as_bytes(), ListSpec::Lines, OnInvalidRows::Skip).await;
    assert_eq!(world.view(key).await.latest_run().run.doc.expected, None);
    world.ingest(key).await;
    let counted = IngestEvent::Counted { records: 36, rows: 35 };
    assert_eq!(world.log(key).await[2], counted);
    let expected = Some(Expected { tasks: 35, exact: true });
    assert_eq!(world.view(key).await.latest_run().run.doc.expected, expected);

    let known = world.stage(text.as_bytes(), ListSpec::Lines, OnInvalidRows::Skip).await;
    let key = world.accept_expecting(known, expected).await;
    world.ingest(key).await;
    assert!(world.log(key).await.iter().all(|event| *event != counted), "the submit knew");
    assert_eq!(world.view(key).await.latest_run().stats.total, 35);

    let checked = world.accept(lines(35).as_bytes(), ListSpec::Lines, OnInvalidRows::Fail).await;
    world.ingest(checked).await;
    assert_eq!(world.view(checked).await.latest_run().run.doc.expected, expected, "checked is counted");
    let counts = |event: &IngestEvent| matches!(event, IngestEvent::Counted { .. });
    assert!(!world.log(checked).await.iter().any(counts));
}

/// Of a list that nobody had counted when it was submitted, all rows have to fit before there is a single one.
#[tokio::test]
async fn a_list_of_more_than_its_caller_may_have_makes_no_task() {
    let world = World::new();
    let quotas = Quotas { queued_tasks: Some(150), ..Quotas::default() };
    let limited = IngestConfig { quotas, ..small_chunks() };
    let ingest = async |key| world.ingester(limited).ingest(key, &CancellationToken::new()).await.unwrap();
    let first = world.accept_lines(&lines(100)).await;
    assert_eq!(ingest(first).await, End::Over);
    assert_eq!(world.view(first).await.latest_run().stats.total, 100);
    for on_invalid_rows in [OnInvalidRows::Skip, OnInvalidRows::Fail] {
        let key = world.accept(lines(51).as_bytes(), ListSpec::Lines, on_invalid_rows).await;
        assert_eq!(ingest(key).await, End::Over);
        failed_with(&world, key, ListFault::QuotaExceeded).await;
        assert!(world.tasks(key).await.is_empty());
        let detail = world.view(key).await.latest_run().run.failure.clone().unwrap().detail;
        assert!(detail.contains("`queued_tasks` is 150: 100 are used, and 51 more"), "{detail}");
    }
    let fits = world.accept_lines(&lines(50)).await;
    assert_eq!(ingest(fits).await, End::Over);
    assert_eq!(world.view(fits).await.latest_run().stats.total, 50);
}

#[tokio::test]
async fn other_bytes_than_the_accepted_ones_are_never_mixed_in() {
    let world = World::new();
    let key = world.accept_lines(&lines(50)).await;
    let path = world.source_path(key).await;
    std::fs::write(&path, lines(50).replace("example.com", "example.net")).unwrap();
    assert_eq!(world.ingest(key).await, End::Over);
    failed_with(&world, key, ListFault::SourceChanged).await;
    assert!(world.tasks(key).await.is_empty());
}

async fn failed_with(world: &World, key: RunKey, fault: ListFault) {
    let run = world.view(key).await.latest_run().run.clone();
    assert_eq!(run.status, RunStatus::Failed, "{fault}");
    assert_eq!(run.failure.unwrap().reason, FailureReason::List(fault));
    assert_eq!(run.ingest, Some(IngestStatus::Done));
    assert!(run.latched);
    let active = world.backend.store.changed_runs(None, world.now()).await.unwrap().active;
    assert!(active.iter().all(|active| active.run.id != key.run), "nothing is left running");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}
