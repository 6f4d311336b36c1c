//! A backend behind the [`Weather`]: every operation of every port passes through it. In calm weather it is the backend.

use crate::faults::Weather;
use crate::gate::Gate;
use async_trait::async_trait;
use bytes::Bytes;
use conveyor_domain::grant::{Ask, BudgetView, Grant, Hold, Limits, Scope};
use conveyor_domain::ingest::Entry;
use conveyor_domain::lifecycle::Command;
use conveyor_domain::message::{QueueName, TaskRef};
use conveyor_domain::seal::KeyHash;
use conveyor_domain::task::Attempt;
use conveyor_domain::timeline::TimelineEntry;
use conveyor_domain::upload::{Part, Staged, Upload};
use conveyor_domain::{
    CallerId, ClaimToken, JobId, RunId, Task, TaskId, TaskInput, Timestamp, UploadId, WorkerId,
};
use conveyor_store::port::{
    Acceptance, ActiveRun, Added, Appended, BlobKey, Blobs, ByteStream, ChangedRuns, Chunk, Claim,
    Coordinator, Delivery, Depth, EventStore, Ingest, IngestStore, JobStore, JobView, JobsQuery, KeyStore,
    Queue, Receipt, Retention, RunKey, RunView, SettleGroup, Settled, Stored, Submission, TaskStore,
    TasksQuery, UploadStore, UploadsQuery,
};
use conveyor_store::{Backend, Result};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

#[derive(Debug)]
struct Flaky {
    inner: Backend,
    weather: Arc<Weather>,
    gate: Option<Arc<Gate>>,
}

impl Flaky {
    async fn pass<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        if let Some(gate) = &self.gate {
            gate.pass().await;
        }
        self.weather.pass(operation, call).await
    }
}

/// The backend as its users have it in this weather.
pub fn flaky(inner: Backend, weather: Arc<Weather>) -> Backend {
    outside(Flaky { inner, weather, gate: None })
}

/// The same, for code that does not wait for its turn by itself.
pub fn gated(inner: Backend, weather: Arc<Weather>, gate: Arc<Gate>) -> Backend {
    outside(Flaky { inner, weather, gate: Some(gate) })
}

fn outside(flaky: Flaky) -> Backend {
    let outside = Arc::new(flaky);
    Backend { store: outside.clone(), queue: outside.clone(), blobs: outside.clone(), coordinator: outside }
}

#[async_trait]
impl JobStore for Flaky {
    async fn submit(&self, submission: Submission) -> Result<Vec<TaskRef>> {
        self.pass("submit", self.inner.store.submit(submission)).await
    }

    async fn add_tasks(
        &self,
        job: JobId,
        tasks: Vec<TaskInput>,
        last_batch: bool,
        run_tasks_max: u32,
        now: Timestamp,
    ) -> Result<Added> {
        let call = self.inner.store.add_tasks(job, tasks, last_batch, run_tasks_max, now);
        self.pass("add_tasks", call).await
    }

    async fn apply(&self, job: JobId, command: Command, now: Timestamp) -> Result<JobView> {
        self.pass("apply", self.inner.store.apply(job, command, now)).await
    }

    async fn job(&self, caller: CallerId, job: JobId) -> Result<Option<JobView>> {
        self.pass("job", self.inner.store.job(caller, job)).await
    }

    async fn jobs(&self, query: JobsQuery) -> Result<Vec<JobView>> {
        self.pass("jobs", self.inner.store.jobs(query)).await
    }

    async fn run(&self, job: JobId, run: RunId) -> Result<Option<RunView>> {
        self.pass("run", self.inner.store.run(job, run)).await
    }

    async fn runs(&self, job: JobId, before: Option<u32>, limit: u32) -> Result<Vec<RunView>> {
        self.pass("runs", self.inner.store.runs(job, before, limit)).await
    }

    async fn active_runs(&self) -> Result<Vec<ActiveRun>> {
        self.pass("active_runs", self.inner.store.active_runs()).await
    }

    fn tell(&self, now: Timestamp) {
        self.inner.store.tell(now);
    }

    async fn changed_runs(&self, since: Timestamp) -> Result<ChangedRuns> {
        self.pass("changed_runs", self.inner.store.changed_runs(since)).await
    }

    async fn ready(&self) -> Result<()> {
        self.pass("ready", self.inner.store.ready()).await
    }
}

#[async_trait]
impl TaskStore for Flaky {
    async fn put_tasks(
        &self,
        key: RunKey,
        rows: Vec<(u32, TaskInput)>,
        now: Timestamp,
    ) -> Result<Vec<TaskRef>> {
        self.pass("put_tasks", self.inner.store.put_tasks(key, rows, now)).await
    }

    async fn claim(
        &self,
        key: RunKey,
        claims: Vec<(TaskRef, ClaimToken)>,
        claims_max: u32,
        now: Timestamp,
    ) -> Result<Vec<Claim>> {
        self.pass("claim", self.inner.store.claim(key, claims, claims_max, now)).await
    }

    async fn settle(&self, group: SettleGroup, now: Timestamp) -> Result<Vec<Settled>> {
        self.pass("settle", self.inner.store.settle(group, now)).await
    }

    async fn task(&self, key: RunKey, task: TaskId) -> Result<Option<Task>> {
        self.pass("task", self.inner.store.task(key, task)).await
    }

    async fn tasks(&self, query: TasksQuery) -> Result<Vec<Task>> {
        self.pass("tasks", self.inner.store.tasks(query)).await
    }

    async fn attempts(&self, key: RunKey, task: TaskId) -> Result<Option<Vec<Attempt>>> {
        self.pass("attempts", self.inner.store.attempts(key, task)).await
    }
}

#[async_trait]
impl UploadStore for Flaky {
    async fn create_upload(&self, upload: Upload, max: u32) -> Result<()> {
        self.pass("create_upload", self.inner.store.create_upload(upload, max)).await
    }

    async fn upload(&self, caller: CallerId, upload: UploadId, now: Timestamp) -> Result<Option<Upload>> {
        self.pass("upload", self.inner.store.upload(caller, upload, now)).await
    }

    async fn uploads(&self, query: UploadsQuery, now: Timestamp) -> Result<Vec<Upload>> {
        self.pass("uploads", self.inner.store.uploads(query, now)).await
    }

    async fn put_staged(&self, upload: UploadId, staged: Staged, now: Timestamp) -> Result<Option<Staged>> {
        self.pass("put_staged", self.inner.store.put_staged(upload, staged, now)).await
    }

    async fn put_joined(
        &self,
        upload: UploadId,
        staged: Staged,
        joined: Vec<Part>,
        now: Timestamp,
    ) -> Result<Option<Staged>> {
        self.pass("put_joined", self.inner.store.put_joined(upload, staged, joined, now)).await
    }

    async fn put_part(&self, upload: UploadId, part: Part, now: Timestamp) -> Result<Option<Staged>> {
        self.pass("put_part", self.inner.store.put_part(upload, part, now)).await
    }

    async fn parts(&self, upload: UploadId) -> Result<Vec<Part>> {
        self.pass("parts", self.inner.store.parts(upload)).await
    }

    async fn abort_upload(&self, caller: CallerId, upload: UploadId, now: Timestamp) -> Result<()> {
        self.pass("abort_upload", self.inner.store.abort_upload(caller, upload, now)).await
    }

    async fn doom_expired_uploads(&self, now: Timestamp, limit: u32) -> Result<u32> {
        self.pass("doom_expired_uploads", self.inner.store.doom_expired_uploads(now, limit)).await
    }

    async fn doomed_uploads(&self, limit: u32) -> Result<Vec<UploadId>> {
        self.pass("doomed_uploads", self.inner.store.doomed_uploads(limit)).await
    }

    async fn forget_upload(&self, upload: UploadId) -> Result<()> {
        self.pass("forget_upload", self.inner.store.forget_upload(upload)).await
    }
}

#[async_trait]
impl IngestStore for Flaky {
    async fn accept(&self, acceptance: Acceptance) -> Result<()> {
        self.pass("accept", self.inner.store.accept(acceptance)).await
    }

    async fn ingest(&self, key: RunKey) -> Result<Option<Ingest>> {
        self.pass("ingest", self.inner.store.ingest(key)).await
    }

    async fn commit_chunk(&self, key: RunKey, chunk: Chunk, now: Timestamp) -> Result<Appended> {
        let appended = self.pass("commit_chunk", self.inner.store.commit_chunk(key, chunk, now)).await?;
        Ok(self.weather.saw(appended))
    }

    async fn append(&self, key: RunKey, entry: Entry, now: Timestamp) -> Result<Appended> {
        let appended = self.pass("append", self.inner.store.append(key, entry, now)).await?;
        Ok(self.weather.saw(appended))
    }

    async fn ingesting_runs(&self, after: Option<RunId>, limit: u32) -> Result<Vec<(RunKey, Timestamp)>> {
        self.pass("ingesting_runs", self.inner.store.ingesting_runs(after, limit)).await
    }
}

#[async_trait]
impl EventStore for Flaky {
    async fn events(&self, job: JobId, after: u64, limit: u32) -> Result<Vec<TimelineEntry>> {
        self.pass("events", self.inner.store.events(job, after, limit)).await
    }
}

#[async_trait]
impl KeyStore for Flaky {
    async fn put_key(&self, key: KeyHash, caller: CallerId, now: Timestamp) -> Result<CallerId> {
        self.pass("put_key", self.inner.store.put_key(key, caller, now)).await
    }

    async fn revoke_all_but(&self, accepted: Vec<KeyHash>, now: Timestamp) -> Result<()> {
        self.pass("revoke_all_but", self.inner.store.revoke_all_but(accepted, now)).await
    }

    async fn caller_of(&self, key: KeyHash) -> Result<Option<CallerId>> {
        self.pass("caller_of", self.inner.store.caller_of(key)).await
    }
}

#[async_trait]
impl Retention for Flaky {
    async fn deleted_jobs(&self, limit: u32) -> Result<Vec<JobId>> {
        self.pass("deleted_jobs", self.inner.store.deleted_jobs(limit)).await
    }

    async fn remove_rows(&self, job: JobId, limit: u32) -> Result<u32> {
        self.pass("remove_rows", self.inner.store.remove_rows(job, limit)).await
    }

    async fn forget_job(&self, job: JobId) -> Result<bool> {
        self.pass("forget_job", self.inner.store.forget_job(job)).await
    }

    async fn ended_runs_with_queue(&self, limit: u32) -> Result<Vec<RunKey>> {
        self.pass("ended_runs_with_queue", self.inner.store.ended_runs_with_queue(limit)).await
    }

    async fn queue_removed(&self, key: RunKey) -> Result<()> {
        self.pass("queue_removed", self.inner.store.queue_removed(key)).await
    }
}

#[async_trait]
impl Queue for Flaky {
    async fn send(&self, queue: QueueName, bodies: Vec<String>, now: Timestamp) -> Result<()> {
        self.pass("send", self.inner.queue.send(queue, bodies, now)).await
    }

    async fn receive(
        &self,
        queue: QueueName,
        max: usize,
        visibility: Duration,
        now: Timestamp,
    ) -> Result<Vec<Delivery>> {
        self.pass("receive", self.inner.queue.receive(queue, max, visibility, now)).await
    }

    async fn ack(&self, queue: QueueName, receipts: Vec<Receipt>) -> Result<()> {
        self.pass("ack", self.inner.queue.ack(queue, receipts)).await
    }

    async fn release(
        &self,
        queue: QueueName,
        receipts: Vec<(Receipt, Duration)>,
        now: Timestamp,
    ) -> Result<()> {
        self.pass("release", self.inner.queue.release(queue, receipts, now)).await
    }

    async fn extend(
        &self,
        queue: QueueName,
        receipts: Vec<Receipt>,
        visibility: Duration,
        now: Timestamp,
    ) -> Result<Vec<Option<Receipt>>> {
        self.pass("extend", self.inner.queue.extend(queue, receipts, visibility, now)).await
    }

    async fn may_have(&self, queues: Vec<QueueName>, now: Timestamp) -> Result<Vec<bool>> {
        self.pass("may_have", self.inner.queue.may_have(queues, now)).await
    }

    async fn is_empty(&self, queue: QueueName, now: Timestamp) -> Result<bool> {
        self.pass("is_empty", self.inner.queue.is_empty(queue, now)).await
    }

    async fn depth(&self, queue: QueueName, now: Timestamp) -> Result<Depth> {
        self.pass("depth", self.inner.queue.depth(queue, now)).await
    }

    async fn remove(&self, queue: QueueName, limit: u32) -> Result<bool> {
        self.pass("remove", self.inner.queue.remove(queue, limit)).await
    }

    async fn ready(&self) -> Result<()> {
        self.pass("ready", self.inner.queue.ready()).await
    }

    fn receive_max(&self) -> usize {
        self.inner.queue.receive_max()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.inner.queue.changes()
    }
}

#[async_trait]
impl Blobs for Flaky {
    async fn put(&self, key: &BlobKey, body: Bytes) -> Result<()> {
        self.pass("put", self.inner.blobs.put(key, body)).await
    }

    async fn get(&self, key: &BlobKey, offset: u64, length: u64) -> Result<Bytes> {
        self.pass("get", self.inner.blobs.get(key, offset, length)).await
    }

    async fn put_stream(&self, key: &BlobKey, body: ByteStream) -> Result<Stored> {
        self.pass("put_stream", self.inner.blobs.put_stream(key, body)).await
    }

    async fn concat(&self, key: &BlobKey, parts: &[BlobKey]) -> Result<Stored> {
        self.pass("concat", self.inner.blobs.concat(key, parts)).await
    }

    async fn read(&self, key: &BlobKey) -> Result<ByteStream> {
        self.pass("read", self.inner.blobs.read(key)).await
    }

    async fn read_pinned(&self, key: &BlobKey, etag: &str, offset: u64) -> Result<ByteStream> {
        let stream = self.pass("read_pinned", self.inner.blobs.read_pinned(key, etag, offset)).await;
        let stream = stream.map(|stream| self.weather.on_the_way(stream));
        self.weather.was_read();
        stream
    }

    async fn delete(&self, key: &BlobKey) -> Result<()> {
        self.pass("delete", self.inner.blobs.delete(key)).await
    }

    async fn delete_under(&self, prefix: &BlobKey) -> Result<()> {
        self.pass("delete_under", self.inner.blobs.delete_under(prefix)).await
    }
}

#[async_trait]
impl Coordinator for Flaky {
    async fn ask(&self, scope: &Scope, ask: Ask, now: Timestamp) -> Result<Grant> {
        self.pass("ask", self.inner.coordinator.ask(scope, ask, now)).await
    }

    async fn give_back(&self, scope: &Scope, worker: WorkerId, now: Timestamp) -> Result<()> {
        self.pass("give_back", self.inner.coordinator.give_back(scope, worker, now)).await
    }

    async fn hold(&self, scope: &Scope, hold: Hold, now: Timestamp) -> Result<()> {
        self.pass("hold", self.inner.coordinator.hold(scope, hold, now)).await
    }

    async fn change(&self, scope: &Scope, limits: Limits, now: Timestamp) -> Result<()> {
        self.pass("change", self.inner.coordinator.change(scope, limits, now)).await
    }

    async fn budget(&self, scope: &Scope, now: Timestamp) -> Result<BudgetView> {
        self.pass("budget", self.inner.coordinator.budget(scope, now)).await
    }

    async fn domain_budgets(
        &self,
        caller: CallerId,
        limit: u32,
        now: Timestamp,
    ) -> Result<Vec<(String, BudgetView)>> {
        self.pass("domain_budgets", self.inner.coordinator.domain_budgets(caller, limit, now)).await
    }
}
