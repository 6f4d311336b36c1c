//! What is submitted: jobs with their tasks in the request, open ones, and staged lists with bad rows.

use super::roles::World;
use bytes::Bytes;
use conveyor_domain::ingest::Source;
use conveyor_domain::{
    JobId, JobSpec, ListSpec, OnInvalidRows, RunId, Staged, TaskInput, Upload, UploadId, lifecycle, limits,
};
use conveyor_store::port::{BlobKey, RunKey, Submission};
use futures::StreamExt;

pub const TASKS: u32 = 60;

/// A run and what it must come to.
pub struct Expected {
    pub key: RunKey,
    pub successful: u32,
    pub failed: u32,
    pub rejected: u32,
}

/// Every seventh page is one that the gateway never has.
fn url(run: usize, task: u32) -> String {
    let kind = if task % 7 == 3 { "missing" } else { "page" };
    format!("https://example.com/{kind}/{run}/{task}")
}

fn failing(tasks: u32) -> u32 {
    (0..tasks).filter(|task| task % 7 == 3).count() as u32
}

pub async fn submit(world: &World, count: usize) -> Vec<Expected> {
    let mut runs = Vec::new();
    for n in 0..count {
        runs.push(match n % 3 {
            0 => in_the_request(world, n).await,
            1 => in_batches(world, n).await,
            _ => staged(world, n).await,
        });
    }
    runs
}

fn ids(world: &World) -> (JobId, RunId) {
    let now = world.clock.now();
    (JobId::new(now, &world.entropy), RunId::new(now, &world.entropy))
}

fn spec(world: &World, open: bool) -> JobSpec {
    let task_shard_count = world.backend.capabilities.sharding.task_shards(u64::from(TASKS), open);
    JobSpec { task_shard_count, max_inflight: 20, ..JobSpec::default() }
}

fn inputs(run: usize, tasks: std::ops::Range<u32>) -> Vec<TaskInput> {
    tasks.map(|task| TaskInput::from_url(&url(run, task)).unwrap()).collect()
}

fn expected(key: RunKey, rejected: u32) -> Expected {
    let failed = failing(TASKS);
    Expected { key, successful: TASKS - failed, failed, rejected }
}

async fn make(world: &World, run: usize, open: bool, tasks: u32) -> RunKey {
    let (job, id) = ids(world);
    let rows = lifecycle::submit(job, id, world.caller, spec(world, open), open, tasks, world.clock.now());
    let tasks = (0..).zip(inputs(run, 0..tasks)).collect();
    world
        .backend
        .store
        .submit(Submission { job: rows.job, run: Some(rows.run), tasks, list: None, once: None })
        .await
        .unwrap();
    RunKey { job, run: id }
}

async fn in_the_request(world: &World, run: usize) -> Expected {
    expected(make(world, run, false, TASKS).await, 0)
}

async fn in_batches(world: &World, run: usize) -> Expected {
    let key = make(world, run, true, TASKS / 2).await;
    for (batch, last) in [(TASKS / 2..TASKS * 3 / 4, false), (TASKS * 3 / 4..TASKS, true)] {
        let (store, now) = (&world.backend.store, world.clock.now());
        store.add_tasks(key.job, inputs(run, batch), last, limits::RUN_TASKS_MAX, None, now).await.unwrap();
    }
    expected(key, 0)
}

/// A list in which every tenth line is not a URL.
async fn staged(world: &World, run: usize) -> Expected {
    let (list, rejected) = list(run);
    let (key, _) = accept(world, list).await;
    expected(key, rejected)
}

fn list(run: usize) -> (String, u32) {
    let (mut list, mut rejected) = (String::new(), 0);
    for task in 0..TASKS {
        if task % 10 == 0 {
            list.push_str("not a url\n");
            rejected += 1;
        }
        list.push_str(&url(run, task));
        list.push('\n');
    }
    (list, rejected)
}

/// Accepts a list. Also says where its bytes are.
pub async fn accept(world: &World, list: String) -> (RunKey, BlobKey) {
    let now = world.clock.now();
    let upload = Upload::new(UploadId::new(now, &world.entropy), world.caller, ListSpec::Lines, now);
    let backend = &world.backend;
    backend.store.create_upload(upload.clone(), u32::MAX).await.unwrap();
    let object: BlobKey = format!("uploads/{}/list", upload.id).parse().unwrap();
    let body = futures::stream::iter([Ok(Bytes::from(list))]).boxed();
    let stored = backend.blobs.put_stream(&object, body).await.unwrap();
    let staged = Staged::new(object.to_string(), stored.size, stored.etag);
    backend.store.put_staged(upload.id, staged.clone(), None, now).await.unwrap();
    let (job, id) = ids(world);
    let rows = lifecycle::accept(job, id, world.caller, spec(world, false), false, now);
    let source = Source {
        upload: upload.id,
        staged,
        spec: ListSpec::Lines,
        on_invalid_rows: OnInvalidRows::Skip,
        param_policy: None,
        unknown_fields: Default::default(),
    };
    backend.store.submit(Submission::of_list(rows.job, rows.run, source, None)).await.unwrap();
    (RunKey { job, run: id }, object)
}
