//! Broken off anywhere, repeated, and done by several at once: the same rows, the same total.

use crate::blobs::{Act, Read, scripted};
use crate::world::{World, lines, open, small_chunks};
use conveyor_domain::{
    ClaimToken, Clock, Entropy, Format, IngestStatus, Outcome, ResultRef, TaskId, TaskRef, TaskStatus,
    WorkerId,
};
use conveyor_ingest::{End, Ingester};
use conveyor_store::port::{Claim, RunKey, Settle, SettleGroup};
use conveyor_testkit::cancel_at;
use std::sync::{Arc, OnceLock};
use tokio_util::sync::CancellationToken;

async fn exact(world: &World, key: RunKey, rows: u32) {
    let view = world.view(key).await;
    assert_eq!(view.latest_run().run.ingest, Some(IngestStatus::Done));
    assert_eq!(view.latest_run().stats.total, rows);
    let indexes: Vec<_> = world.tasks(key).await.iter().map(|task| task.id.index()).collect();
    assert_eq!(indexes, (0..rows).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_ingesters_at_once_write_every_row_once() {
    let world = World::new();
    let key = world.accept_lines(&lines(500)).await;
    let ingesters: Vec<_> = (0..8)
        .map(|_| {
            let ingester = world.ingester(small_chunks());
            tokio::spawn(async move { ingester.ingest(key, &CancellationToken::new()).await.unwrap() })
        })
        .collect();
    let mut ends = Vec::new();
    for ingester in ingesters {
        ends.push(ingester.await.unwrap());
    }
    assert!(ends.contains(&End::Over), "{ends:?}");
    assert!(ends.iter().all(|end| matches!(end, End::Over | End::Lost)), "{ends:?}");
    exact(&world, key, 500).await;
    assert_eq!(world.queued(key).await.len(), 500);
}

/// One process that works on a list twice at once: whoever loses a chunk takes back its own report, not the winner's.
#[tokio::test]
async fn a_report_that_counts_is_never_deleted() {
    let world = World::new();
    let text = format!("{}bad\n{}", lines(15), lines(15));
    let key = world.accept_lines(&text).await;
    let twin: Arc<OnceLock<Arc<Ingester>>> = Arc::default();
    let other = twin.clone();
    let overtake: Act = Box::new(move || {
        Box::pin(async move {
            let end = other.get().unwrap().ingest(key, &CancellationToken::new()).await.unwrap();
            assert_eq!(end, End::Over);
        })
    });
    // The first try counts, and ends behind the first chunk; the second is overtaken right after it has opened the list.
    let counts: Act = Box::new(|| Box::pin(async {}));
    let reads = [Read::After(counts), Read::BreaksAfter(300), Read::After(overtake)];
    let backend = scripted(&world.backend, reads);
    let ingester = Arc::new(Ingester::new(backend, world.clock.clone(), &world.entropy, small_chunks()));
    assert!(twin.set(ingester.clone()).is_ok());
    assert!(ingester.ingest(key, &CancellationToken::new()).await.is_err());
    assert_eq!(ingester.ingest(key, &CancellationToken::new()).await.unwrap(), End::Lost);
    assert_eq!(world.state(key).await.rejected, 1);
    assert_eq!(world.rejected(key).await.len(), 1, "the report that the log names is there");
    let reports = world.dir.path().join(format!("blobs/jobs/{}/runs/{}/rejected", key.job, key.run));
    assert_eq!(std::fs::read_dir(reports).unwrap().count(), 1, "and no other");
}

#[tokio::test]
async fn replaying_a_settled_list_resets_nothing() {
    let world = World::new();
    let key = world.accept_lines(&lines(40)).await;
    world.ingest(key).await;
    settle(&world, key, 7).await;
    assert_eq!(world.ingest(key).await, End::Over);
    exact(&world, key, 40).await;
    assert_eq!(world.tasks(key).await[7].status, TaskStatus::Successful);
    assert_eq!(world.view(key).await.latest_run().stats.counts.successful, 1);
}

/// Dropped at any await: what a killed process leaves behind, at the granularity of its steps.
#[tokio::test]
async fn an_ingest_that_is_dropped_at_any_await_is_finished_by_the_next() {
    for n in 0.. {
        let world = World::new();
        let key = world.accept_lines(&lines(45)).await;
        let (ingester, stop) = (world.ingester(small_chunks()), CancellationToken::new());
        let ended = cancel_at(n, ingester.ingest(key, &stop)).await;
        drop(ingester);
        if ended.is_some() {
            // How often it waits depends on how fast the writer answers.
            assert!(n > 1, "it waits more often than {n} times");
            exact(&world, key, 45).await;
            return;
        }
        let mut next = world.ingest(key).await;
        if next == End::Lost {
            // A write of the dropped ingest was still queued and committed late.
            next = world.ingest(key).await;
        }
        assert_eq!(next, End::Over, "after {n} waits");
        exact(&world, key, 45).await;
    }
}

/// Dropped again and again, by one after another.
#[tokio::test]
async fn an_ingest_that_is_dropped_as_often_as_it_takes_still_ends_exact() {
    let mut dropped_in_all = 0;
    for patience in [1, 2, 3, 5, 8, 13] {
        let world = World::new();
        let key = world.accept_lines(&lines(150)).await;
        let mut dropped = 0;
        while world.view(key).await.latest_run().run.ingest != Some(IngestStatus::Done) {
            assert!(dropped < 10_000, "no progress with a patience of {patience}");
            // Each try waits a little more often than the last, so that it gets past the step that the last one died in.
            let (ingester, stop) = (world.ingester(small_chunks()), CancellationToken::new());
            let waits = patience * (1 + dropped % 40);
            if cancel_at(waits, ingester.ingest(key, &stop)).await.is_none() {
                dropped += 1;
            }
        }
        dropped_in_all += dropped;
        exact(&world, key, 150).await;
    }
    assert!(dropped_in_all > 6, "dropped only {dropped_in_all} times");
}

/// The files as they are after each commit, opened by another process that goes on.
#[tokio::test]
async fn a_copy_of_the_disk_taken_at_any_moment_goes_on_to_the_same_end() {
    let world = World::new();
    let key = world.accept_lines(&lines(200)).await;
    let ingester = world.ingester(small_chunks());
    let running = tokio::spawn(async move { ingester.ingest(key, &CancellationToken::new()).await });
    let mut copies = Vec::new();
    while !running.is_finished() {
        let copy = tempfile::TempDir::new().unwrap();
        copy_tree(world.dir.path(), copy.path());
        copies.push(copy);
        tokio::task::yield_now().await;
    }
    running.await.unwrap().unwrap();
    assert!(!copies.is_empty());
    for copy in copies {
        let clock = world.clock.clone();
        let entropy = Entropy::from_number(5);
        let after = World {
            backend: open(copy.path(), clock.now()),
            dir: copy,
            caller: world.caller,
            clock: clock.clone(),
            entropy: Entropy::from_number(6),
        };
        let ingester = Ingester::new(after.backend.clone(), clock, &entropy, small_chunks());
        assert_eq!(ingester.ingest(key, &CancellationToken::new()).await.unwrap(), End::Over);
        exact(&after, key, 200).await;
    }
}

async fn settle(world: &World, key: RunKey, index: u32) {
    let task = TaskId::of(key.run, index);
    let claim = (TaskRef { task, task_shard_count: 1 }, ClaimToken::new(&world.entropy));
    let store = &world.backend.store;
    let claimed = store.claim(key, vec![claim], 20, world.now()).await.unwrap().remove(0);
    let Claim::Claimed(claimed) = claimed else { panic!("{claimed:?}") };
    let result = ResultRef::empty(Format::Html, 200);
    let settles = vec![Settle::new(&claimed, Outcome::Successful(result))];
    let worker = WorkerId::new(world.now(), &world.entropy);
    store.settle(SettleGroup { key, worker, settles }, world.now()).await.unwrap();
}

/// Database and log are copied while they are written; SQLite's own recovery takes what was committed.
fn copy_tree(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
