//! A small world for the rules: ids, a clock that moves when told to, and the common steps of a run.

use super::Harness;
use crate::Backend;
use crate::port::{
    BlobKey, Chore, Claim, ClaimedTask, JobView, RunKey, Settle, SettleGroup, Settled, Submission,
};
use bytes::Bytes;
use conveyor_domain::ingest::Source;
use conveyor_domain::repair::Subject;
use conveyor_domain::{
    CallerId, ClaimToken, Clock, Entropy, FailureClass, Format, JobId, JobSpec, ListSpec, OnInvalidRows,
    Outcome, Problem, ResultRef, RunId, Spend, Staged, TaskId, TaskInput, TaskRef, Timestamp, Upload,
    UploadId, WorkerId, lifecycle,
};
use futures::StreamExt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::Poll;
use std::time::Duration;

pub const CLAIMS_MAX: u32 = 20;

impl Clock for World {
    fn now(&self) -> Timestamp {
        World::now(self)
    }
}

/// Expects what a rule needs in order to go on.
pub fn must<T, E: std::fmt::Debug>(outcome: Result<T, E>) -> T {
    outcome.expect("the backend answered with an error")
}

/// How far a call that is broken off gets, at most: past every step that a backend takes.
pub const POLLS_MAX: u32 = 12;

/// Polls a call this often, then drops it: what a process that dies in the middle of the call leaves behind.
pub async fn broken_off(call: impl Future, polls: u32) {
    let (mut call, mut left) = (std::pin::pin!(call), polls);
    std::future::poll_fn(|context| {
        left = left.saturating_sub(1);
        if call.as_mut().poll(context).is_ready() || left == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

#[derive(Debug)]
pub struct World {
    pub backend: Backend,
    pub caller: CallerId,
    pub worker: WorkerId,
    pub entropy: Entropy,
    pub now_ms: AtomicI64,
}

impl World {
    pub fn new(backend: Backend) -> World {
        // Far from zero, so that "long ago" is representable, and the same for every rule.
        let (now, entropy) = (Timestamp(1_800_000_000_000), Entropy::from_number(7));
        World {
            caller: CallerId::new(now, &entropy),
            worker: WorkerId::new(now, &entropy),
            backend,
            entropy,
            now_ms: AtomicI64::new(now.0),
        }
    }

    /// The same world on what a crash left.
    #[must_use]
    pub fn on(self, backend: Backend) -> World {
        World { backend, ..self }
    }

    pub fn now(&self) -> Timestamp {
        Timestamp(self.now_ms.load(Ordering::SeqCst))
    }

    pub fn pass(&self, ms: i64) {
        self.now_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// Lets time pass for everybody, also for a backend that has a clock of its own.
    pub async fn wait(&self, harness: &dyn Harness, time: Duration) {
        harness.wait(time).await;
        self.pass(i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
    }

    pub fn inputs(count: u32) -> Vec<TaskInput> {
        (0..count).map(|i| must(TaskInput::from_url(&format!("https://example.com/{i}")))).collect()
    }

    fn spec(&self, expected: u64, open: bool) -> JobSpec {
        let task_shard_count = self.backend.capabilities.sharding.task_shards(expected, open);
        JobSpec { task_shard_count, ..JobSpec::default() }
    }

    pub fn submission(&self, open: bool, tasks: u32) -> Submission {
        let (job, run) = (JobId::new(self.now(), &self.entropy), RunId::new(self.now(), &self.entropy));
        let spec = self.spec(u64::from(tasks), open);
        let rows = lifecycle::submit(job, run, self.caller, spec, open, tasks, self.now());
        Submission {
            job: rows.job,
            run: Some(rows.run),
            tasks: (0..).zip(World::inputs(tasks)).collect(),
            list: None,
            once: None,
        }
    }

    /// Submits a job and sends its refs.
    pub async fn submit(&self, open: bool, tasks: u32) -> RunKey {
        let submission = self.submission(open, tasks);
        let key = RunKey { job: submission.job.id, run: submission.job.latest_run };
        must(self.backend.store.submit(submission).await);
        key
    }

    pub fn new_upload(&self) -> Upload {
        Upload::new(UploadId::new(self.now(), &self.entropy), self.caller, ListSpec::Lines, self.now())
    }

    pub async fn upload(&self) -> Upload {
        let upload = self.new_upload();
        must(self.backend.store.create_upload(upload.clone(), u32::MAX).await);
        upload
    }

    /// Bytes in an object of their own.
    pub async fn staged(&self, name: &str, bytes: &'static [u8]) -> Staged {
        let key: BlobKey = must(format!("uploads/{name}-{:016x}", self.entropy.next_u64()).parse());
        let body = futures::stream::iter([Ok(Bytes::from_static(bytes))]).boxed();
        let stored = must(self.backend.blobs.put_stream(&key, body).await);
        Staged::new(key.to_string(), stored.size, stored.etag)
    }

    pub fn acceptance(&self, upload: &Upload, staged: &Staged) -> Submission {
        let (job, run) = (JobId::new(self.now(), &self.entropy), RunId::new(self.now(), &self.entropy));
        let rows = lifecycle::accept(job, run, self.caller, self.spec(0, false), false, self.now());
        let on_invalid_rows = OnInvalidRows::Skip;
        let source = Source {
            upload: upload.id,
            staged: staged.clone(),
            spec: upload.spec.clone(),
            on_invalid_rows,
            param_policy: None,
            unknown_fields: Default::default(),
        };
        Submission::of_list(rows.job, rows.run, source, None)
    }

    /// Accepts a job of an upload.
    pub async fn accept(&self, upload: &Upload, staged: &Staged) -> RunKey {
        let acceptance = self.acceptance(upload, staged);
        let key = RunKey { job: acceptance.job.id, run: acceptance.job.latest_run };
        must(self.backend.store.submit(acceptance).await);
        key
    }

    /// Runs that there is something to do with.
    pub async fn due_runs(&self, chore: Chore, limit: u32) -> Vec<RunKey> {
        must(self.backend.store.due(chore, limit).await).into_iter().filter_map(RunKey::of).collect()
    }

    pub async fn expired_uploads(&self, by: Timestamp) -> Vec<UploadId> {
        let due = must(self.backend.store.due(Chore::ExpiredUploads { by }, 10).await);
        let upload = |subject| if let Subject::Upload(upload) = subject { Some(upload) } else { None };
        due.into_iter().filter_map(upload).collect()
    }

    pub async fn view(&self, key: RunKey) -> JobView {
        must(self.backend.store.job(Some(self.caller), key.job).await).expect("the job is there")
    }

    pub fn task(key: RunKey, index: u32) -> TaskId {
        TaskId::of(key.run, index)
    }

    /// A ref as it travels: with the partitions that its job was made with.
    pub async fn task_ref(&self, key: RunKey, index: u32) -> TaskRef {
        let job = must(self.backend.store.job(Some(self.caller), key.job).await);
        let task_shard_count = job.map_or(1, |view| view.job.spec.task_shard_count);
        TaskRef { task: World::task(key, index), task_shard_count }
    }

    pub async fn claim(&self, key: RunKey, index: u32) -> Claim {
        let task = self.task_ref(key, index).await;
        let claims = vec![(task, ClaimToken::new(&self.entropy))];
        must(self.backend.store.claim(key, claims, CLAIMS_MAX, self.now()).await).remove(0)
    }

    pub async fn claimed(&self, key: RunKey, index: u32) -> ClaimedTask {
        match self.claim(key, index).await {
            Claim::Claimed(task) => task,
            other => panic!("expected a claim of task {index}, got {other:?}"),
        }
    }

    pub async fn settle(&self, key: RunKey, claimed: &ClaimedTask, outcome: Outcome) -> Settled {
        self.settle_at(key, claimed, outcome, Spend::default()).await
    }

    /// With what it cost.
    pub async fn settle_at(
        &self,
        key: RunKey,
        claimed: &ClaimedTask,
        outcome: Outcome,
        spend: Spend,
    ) -> Settled {
        let settles = vec![Settle { spend, ..Settle::new(claimed, outcome) }];
        let group = SettleGroup { key, worker: self.worker, settles };
        must(self.backend.store.settle(group, self.now()).await).remove(0)
    }

    /// Claims and settles in one go.
    pub async fn finish(&self, key: RunKey, index: u32, outcome: Outcome) {
        let claimed = self.claimed(key, index).await;
        assert_eq!(self.settle(key, &claimed, outcome).await, Settled::Applied);
    }
}

pub fn success() -> Outcome {
    let object = Some("jobs/x/results/1".to_owned());
    Outcome::Successful(ResultRef {
        object,
        offset: 3,
        length: 5,
        crc32: Some(0xcbf4_3926),
        ..ResultRef::empty(Format::Html, 200)
    })
}

pub fn problem() -> Problem {
    Problem::new(503, "http_503", "The gateway answered 503").with_detail("try later")
}

pub fn failure(class: FailureClass) -> Outcome {
    Outcome::Failed { class, problem: problem() }
}
