//! What a page of a list costs, however little of what it looks at passes its filter.

use super::{counted, open_on};
use conveyor_domain::{JobStatus, limits};
use conveyor_store::conformance::{World, success};
use conveyor_store::port::{JobsQuery, Reader, RunKey, StatusFilter, TasksQuery};
use metrics_util::debugging::DebuggingRecorder;
use std::collections::BTreeMap;

/// What was counted while it ran.
async fn metered<T>(call: impl Future<Output = T>) -> (T, BTreeMap<String, u64>) {
    let recorder = DebuggingRecorder::new();
    let meter = recorder.snapshotter();
    let _counting = metrics::set_default_local_recorder(&recorder);
    let answer = call.await;
    (answer, counted(&meter))
}

fn count(counts: &BTreeMap<String, u64>, name: &str) -> u64 {
    counts.get(name).copied().unwrap_or(0)
}

#[tokio::test(flavor = "current_thread")]
async fn a_filtered_page_reads_no_more_rows_than_it_may() {
    const LOOK: u32 = 50;
    for shards in [1, 16] {
        let (_harness, world) = open_on(shards).await;
        let key = world.submit(false, 400).await;
        for index in [7, 399] {
            world.finish(key, index, success()).await;
        }
        let filter = StatusFilter::Successful;
        let mut query = TasksQuery { key, filter, after: None, limit: 100, max_bytes: usize::MAX };
        let mut found = Vec::new();
        loop {
            let (page, counts) = metered(world.backend.store.scan_tasks(query, LOOK, Reader::Caller)).await;
            let (page, read) = (page.unwrap(), count(&counts, "conveyor_aws_rows_read_total "));
            assert!(read <= u64::from(LOOK), "{read} rows read for a page, {shards} partitions");
            found.extend(page.rows.iter().map(|task| task.id.index()));
            query.after = page.next;
            if page.next.is_none() {
                break;
            }
        }
        assert_eq!(found, [7, 399], "{shards} partitions");
    }
}

/// A job whose rows weigh this much each, all of them pending.
async fn submit_heavy(world: &World, rows: u32, bytes: usize) -> RunKey {
    let mut submission = world.submission(false, rows);
    for (_, input) in &mut submission.tasks {
        input.external_id = Some("x".repeat(bytes));
    }
    let key = RunKey { job: submission.job.id, run: submission.job.latest_run };
    world.backend.store.submit(submission).await.unwrap();
    key
}

#[tokio::test(flavor = "current_thread")]
async fn a_filtered_page_of_heavy_rows_reads_no_more_units_than_it_may() {
    const BYTES: usize = 16 * 1024;
    // 6.4 MB: half as much again as a page may read.
    const ROWS: u32 = 400;
    for shards in [1, 16] {
        let (_harness, world) = open_on(shards).await;
        let key = submit_heavy(&world, ROWS, BYTES).await;
        let filter = StatusFilter::Failed;
        let mut query = TasksQuery { key, filter, after: None, limit: 100, max_bytes: usize::MAX };
        let mut pages = 0;
        loop {
            let (page, counts) =
                metered(world.backend.store.scan_tasks(query, limits::LOOK_ROWS_MAX, Reader::Caller)).await;
            let units = count(&counts, "conveyor_aws_capacity_tenths_total Query") / 10;
            // What it has begun it ends: an answer of 1 MiB, which is 256 units, or a window as wide as it could afford.
            let most = u64::from(limits::LOOK_UNITS_MAX) + 300;
            assert!(units <= most, "{units} units for a page, {shards} partitions");
            pages += 1;
            query.after = page.unwrap().next;
            if query.after.is_none() {
                break;
            }
        }
        assert!(pages > 1, "{shards} partitions: one page has read it all");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_list_of_jobs_reads_no_more_jobs_than_it_may() {
    const LOOK: u32 = 10;
    let (_harness, world) = open_on(1).await;
    for _ in 0..30 {
        world.pass(1);
        world.submit(false, 1).await;
    }
    let all = JobsQuery {
        caller: world.caller,
        status: None,
        scheduled: None,
        before: None,
        limit: 100,
        look: LOOK,
    };
    // What is asked for, and how many jobs are read at all, and whole.
    let cases = [
        (JobsQuery { status: Some(JobStatus::Open), ..all }, 0, 0),
        (JobsQuery { scheduled: Some(true), ..all }, LOOK, 0),
        (all, LOOK, LOOK),
        (JobsQuery { limit: 5, ..all }, 5, 5),
    ];
    for (query, read, whole) in cases {
        let (page, counts) = metered(world.backend.store.jobs(query)).await;
        let page = page.unwrap();
        assert!(page.next.is_some(), "{query:?}");
        assert_eq!(page.rows.len() as u32, whole, "{query:?}");
        let calls = |operation| count(&counts, &format!("conveyor_aws_calls_total {operation}"));
        assert_eq!((calls("GetItem"), calls("TransactGetItems")), (read.into(), whole.into()), "{query:?}");
        // One page of the index, and the counters of every job that is shown.
        assert!(calls("Query") <= 1 + u64::from(whole), "{counts:?}");
    }
}
