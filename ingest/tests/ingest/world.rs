//! A store in a temporary directory, lists staged in it, and what became of them.

use bytes::Bytes;
use conveyor_domain::ingest::Source;
use conveyor_domain::job::run::Expected;
use conveyor_domain::{
    CallerId, Clock, Entropy, IngestEvent, IngestState, JobId, JobSpec, ListSpec, OnInvalidRows, QueueName,
    RejectedRow, RunId, Staged, Task, TaskRef, Timestamp, Upload, UploadId, WorkerId, lifecycle,
};
use conveyor_ingest::{End, IngestConfig, Ingester};
use conveyor_store::Backend;
use conveyor_store::embedded::Embedded;
use conveyor_store::port::{BlobKey, Ingest, JobView, Reader, RunKey, StatusFilter, Submission, TasksQuery};
use conveyor_testkit::ManualClock;
use futures::StreamExt;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

pub struct World {
    // Dropped in this order: the store lets go of the directory before it is removed.
    pub backend: Backend,
    pub dir: TempDir,
    pub clock: Arc<ManualClock>,
    pub entropy: Entropy,
    pub caller: CallerId,
}

/// Small chunks, so that a short list has many steps.
pub fn small_chunks() -> IngestConfig {
    IngestConfig { chunk_rows: 10, ..IngestConfig::default() }
}

impl World {
    pub fn new() -> World {
        let dir = TempDir::new().unwrap();
        let clock = Arc::new(ManualClock::new());
        let entropy = Entropy::from_number(11);
        let caller = CallerId::new(clock.now(), &entropy);
        World { backend: open(dir.path(), clock.now()), dir, clock, entropy, caller }
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn ingester(&self, config: IngestConfig) -> Ingester {
        Ingester::new(self.backend.clone(), self.clock.clone(), &self.entropy, config)
    }

    /// Stages bytes and accepts a job of them.
    pub async fn accept(&self, bytes: &[u8], spec: ListSpec, on_invalid_rows: OnInvalidRows) -> RunKey {
        let source = self.stage(bytes, spec, on_invalid_rows).await;
        self.accept_source(source, false).await
    }

    pub async fn accept_lines(&self, text: &str) -> RunKey {
        self.accept(text.as_bytes(), ListSpec::Lines, OnInvalidRows::Skip).await
    }

    pub async fn stage(&self, bytes: &[u8], spec: ListSpec, on_invalid_rows: OnInvalidRows) -> Source {
        self.stage_in(UploadId::new(self.now(), &self.entropy), bytes, spec, on_invalid_rows).await
    }

    /// JSON Lines that know where they are staged.
    pub async fn stage_as(
        &self,
        on_invalid_rows: OnInvalidRows,
        bytes: impl FnOnce(UploadId) -> Vec<u8>,
    ) -> Source {
        let id = UploadId::new(self.now(), &self.entropy);
        self.stage_in(id, &bytes(id), ListSpec::Jsonl, on_invalid_rows).await
    }

    async fn stage_in(
        &self,
        id: UploadId,
        bytes: &[u8],
        spec: ListSpec,
        on_invalid_rows: OnInvalidRows,
    ) -> Source {
        let upload = Upload::new(id, self.caller, spec.clone(), self.now());
        self.backend.store.create_upload(upload, 10).await.unwrap();
        let key = BlobKey::upload(id, WorkerId::new(self.now(), &self.entropy), 0);
        let pieces: Vec<_> = bytes.chunks(1000).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        let stored =
            self.backend.blobs.put_stream(&key, futures::stream::iter(pieces).boxed()).await.unwrap();
        let staged = Staged::new(key.to_string(), stored.size, stored.etag);
        self.backend.store.put_staged(id, staged.clone(), None, self.now()).await.unwrap();
        Source {
            upload: id,
            staged,
            spec,
            on_invalid_rows,
            param_policy: None,
            unknown_fields: Default::default(),
        }
    }

    pub async fn accept_source(&self, source: Source, open: bool) -> RunKey {
        self.accept_as(source, open, None).await
    }

    /// As a submit that knows how many tasks there will be.
    pub async fn accept_expecting(&self, source: Source, expected: Option<Expected>) -> RunKey {
        self.accept_as(source, false, expected).await
    }

    async fn accept_as(&self, source: Source, open: bool, expected: Option<Expected>) -> RunKey {
        let (job, run) = (JobId::new(self.now(), &self.entropy), RunId::new(self.now(), &self.entropy));
        let mut rows = lifecycle::accept(job, run, self.caller, JobSpec::default(), open, self.now());
        rows.run.doc.expected = expected;
        let acceptance = Submission::of_list(rows.job, rows.run, source, None);
        self.backend.store.submit(acceptance).await.unwrap();
        RunKey { job, run }
    }

    /// One ingester, undisturbed.
    pub async fn ingest(&self, key: RunKey) -> End {
        self.ingester(small_chunks()).ingest(key, &CancellationToken::new()).await.unwrap()
    }

    pub async fn view(&self, key: RunKey) -> JobView {
        self.backend.store.job(Some(self.caller), key.job).await.unwrap().unwrap()
    }

    pub async fn log(&self, key: RunKey) -> Vec<IngestEvent> {
        let Ingest { log, .. } = self.backend.store.ingest(key, Reader::Role).await.unwrap().unwrap();
        assert!(
            log.iter().enumerate().all(|(n, logged)| logged.number as usize == n),
            "numbers have no gaps"
        );
        log.into_iter().map(|logged| logged.event).collect()
    }

    pub async fn state(&self, key: RunKey) -> IngestState {
        let Ingest { log, .. } = self.backend.store.ingest(key, Reader::Role).await.unwrap().unwrap();
        IngestState::fold(&log).unwrap()
    }

    pub async fn tasks(&self, key: RunKey) -> Vec<Task> {
        let mut tasks = Vec::new();
        loop {
            let after = tasks.last().map(|task: &Task| task.id);
            let query =
                TasksQuery { key, filter: StatusFilter::All, after, limit: 1000, max_bytes: usize::MAX };
            let page = self.backend.store.tasks(query).await.unwrap();
            if page.is_empty() {
                return tasks;
            }
            tasks.extend(page);
        }
    }

    /// The indexes for which a message waits, each of which may wait more than once.
    pub async fn queued(&self, key: RunKey) -> BTreeSet<u32> {
        let mut queued = BTreeSet::new();
        loop {
            let (queue, day) = (QueueName::Run(key.run), std::time::Duration::from_secs(86_400));
            let received = self.backend.queue.receive(queue, 256, day, self.now()).await.unwrap();
            if received.is_empty() {
                return queued;
            }
            queued.extend(received.iter().map(|d| d.body.parse::<TaskRef>().unwrap().task.index()));
        }
    }

    pub async fn rejected(&self, key: RunKey) -> Vec<RejectedRow> {
        let mut rows = Vec::new();
        for event in self.log(key).await {
            let (IngestEvent::ChunkCommitted { report: Some(report), .. }
            | IngestEvent::Failed { report: Some(report), .. }) = event
            else {
                continue;
            };
            let text = std::fs::read_to_string(self.dir.path().join("blobs").join(report)).unwrap();
            rows.extend(text.lines().map(|line| serde_json::from_str::<RejectedRow>(line).unwrap()));
        }
        rows
    }

    /// Where the staged bytes of a run are.
    pub async fn source_path(&self, key: RunKey) -> std::path::PathBuf {
        self.dir.path().join("blobs").join(self.state(key).await.list().unwrap().staged.object.clone())
    }
}

pub fn open(dir: &Path, now: Timestamp) -> Backend {
    Embedded::open(dir, now).unwrap().backend()
}

pub fn lines(count: u32) -> String {
    (0..count).map(|n| format!("https://example.com/{n}\n")).collect()
}
