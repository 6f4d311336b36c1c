//! What is particular to the table: what its calls cost, by the meter that operators see, and rows of earlier versions.

mod api_keys;
mod budgets;
mod damage;
mod discovery;
mod holes;
mod lists;
mod proof;
mod removal;
mod rows;

use crate::on_aws::OnAws;
use conveyor_aws_servers::Combination;
use conveyor_domain::TaskId;
use conveyor_store::conformance::{Harness, World};
use conveyor_store::port::{RunKey, StatusFilter, TasksQuery};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use std::collections::BTreeMap;

/// A world on servers of its own tables, whose jobs have so many partitions.
async fn open_on(shards: u32) -> (OnAws, World) {
    let harness = OnAws::new(Combination::Default, shards).await;
    let world = World::new(harness.backend());
    (harness, world)
}

/// What was counted since the last look, by name and operation.
fn counted(meter: &Snapshotter) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for (key, _, _, value) in meter.snapshot().into_vec() {
        let key = key.key();
        let operation = key.labels().find(|label| label.key() == "operation").map(|label| label.value());
        if let DebugValue::Counter(count) = value {
            *counts.entry([key.name(), operation.unwrap_or_default()].join(" ")).or_insert(0) += count;
        }
    }
    counts
}

async fn page(world: &World, key: RunKey, after: Option<TaskId>, limit: u32) -> Vec<TaskId> {
    let query = TasksQuery { key, filter: StatusFilter::All, after, limit, max_bytes: usize::MAX };
    world.backend.store.tasks(query).await.unwrap().into_iter().map(|task| task.id).collect()
}

async fn enumerate(world: &World, key: RunKey, limit: u32) -> usize {
    let (mut seen, mut after) = (0, None);
    loop {
        let ids = page(world, key, after, limit).await;
        let Some(last) = ids.last() else { return seen };
        (seen, after) = (seen + ids.len(), Some(*last));
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_page_of_a_small_job_is_one_query() {
    let harness = OnAws::new(Combination::Default, 1).await;
    let world = World::new(harness.backend());
    let key = world.submit(false, 250).await;
    let recorder = DebuggingRecorder::new();
    let meter = recorder.snapshotter();
    let _counting = metrics::set_default_local_recorder(&recorder);
    assert_eq!(page(&world, key, None, 100).await.len(), 100);
    let counts = counted(&meter);
    assert_eq!(counts.get("conveyor_aws_calls_total Query"), Some(&1), "{counts:?}");
    assert_eq!(counts.get("conveyor_aws_calls_total GetItem"), Some(&1), "its run: {counts:?}");
    assert_eq!(counts.get("conveyor_aws_rows_read_total "), Some(&100), "{counts:?}");
    assert_eq!(counts.keys().filter(|name| name.starts_with("conveyor_aws_calls_total")).count(), 2);
}

#[tokio::test(flavor = "current_thread")]
async fn an_enumeration_over_16_shards_reads_hardly_more_than_it_returns() {
    let harness = OnAws::new(Combination::Default, 16).await;
    let world = World::new(harness.backend());
    let key = world.submit(false, 1_500).await;
    // As rejected records and given-up additions leave it: with gaps.
    let sparse = world.submit(true, 100).await;
    let rows = (0..500).map(|n| (200 + 7 * n, World::inputs(1).remove(0)));
    world.backend.store.put_tasks(sparse, rows.collect(), world.now()).await.unwrap();
    for (key, expected, limit) in [(key, 1_500, 100), (key, 1_500, 1_000), (sparse, 600, 100)] {
        let recorder = DebuggingRecorder::new();
        let meter = recorder.snapshotter();
        let _counting = metrics::set_default_local_recorder(&recorder);
        assert_eq!(enumerate(&world, key, limit).await, expected);
        let counts = counted(&meter);
        let (read, returned) =
            (counts["conveyor_aws_rows_read_total "], counts["conveyor_aws_rows_returned_total "]);
        assert_eq!(returned, expected as u64);
        assert!(read as f64 <= 1.25 * returned as f64, "{read} rows read for {returned}");
    }
}
