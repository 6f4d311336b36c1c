//! A backend behind the [`Weather`]: every operation of every port passes through it. In calm weather it is the backend.

mod outside;
mod upkeep;

use crate::faults::Weather;
use crate::gate::Gate;
use async_trait::async_trait;
use conveyor_domain::ingest::Entry;
use conveyor_domain::{
    Attempt, CallerId, ClaimToken, Command, JobId, KeyHash, Outcome, ReplayedTask, RunId, Task, TaskId,
    TaskInput, TaskRef, TimelineEntry, Timestamp, WorkerId,
};
use conveyor_store::port::{
    Acceptance, ActiveRun, Added, Appended, ChangedRuns, Chunk, Claim, EventStore, Ingest, IngestStore,
    JobStore, JobView, JobsQuery, KeyStore, Once, Page, RunKey, RunView, RunsQuery, SettleGroup, Settled,
    StartRun, Submission, TaskStore, TasksQuery,
};
use conveyor_store::{Backend, Result};
use std::sync::Arc;

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
        once: Option<Once>,
        now: Timestamp,
    ) -> Result<Added> {
        let call = self.inner.store.add_tasks(job, tasks, last_batch, run_tasks_max, once, now);
        self.pass("add_tasks", call).await
    }

    async fn start_run(&self, start: StartRun, now: Timestamp) -> Result<JobView> {
        self.pass("start_run", self.inner.store.start_run(start, now)).await
    }

    async fn apply(&self, job: JobId, command: Command, now: Timestamp) -> Result<JobView> {
        self.pass("apply", self.inner.store.apply(job, command, now)).await
    }

    async fn delete_run(&self, key: RunKey, now: Timestamp) -> Result<RunView> {
        self.pass("delete_run", self.inner.store.delete_run(key, now)).await
    }

    async fn any_job(&self, job: JobId) -> Result<Option<JobView>> {
        self.pass("any_job", self.inner.store.any_job(job)).await
    }

    async fn job(&self, caller: CallerId, job: JobId) -> Result<Option<JobView>> {
        self.pass("job", self.inner.store.job(caller, job)).await
    }

    async fn jobs(&self, query: JobsQuery) -> Result<Page<JobView, JobId>> {
        self.pass("jobs", self.inner.store.jobs(query)).await
    }

    async fn run(&self, job: JobId, run: RunId) -> Result<Option<RunView>> {
        self.pass("run", self.inner.store.run(job, run)).await
    }

    async fn runs(&self, query: RunsQuery) -> Result<Page<RunView, RunId>> {
        self.pass("runs", self.inner.store.runs(query)).await
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

    async fn restore(
        &self,
        key: RunKey,
        worker: WorkerId,
        ends: Vec<(TaskId, Outcome)>,
        now: Timestamp,
    ) -> Result<Vec<bool>> {
        self.pass("restore", self.inner.store.restore(key, worker, ends, now)).await
    }

    async fn task(&self, key: RunKey, task: TaskId) -> Result<Option<Task>> {
        self.pass("task", self.inner.store.task(key, task)).await
    }

    async fn scan_tasks(&self, query: TasksQuery, look: u32) -> Result<Page<Task, TaskId>> {
        self.pass("tasks", self.inner.store.scan_tasks(query, look)).await
    }

    async fn attempts(&self, key: RunKey, task: TaskId) -> Result<Option<Vec<Attempt>>> {
        self.pass("attempts", self.inner.store.attempts(key, task)).await
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

    async fn fix_replayed(
        &self,
        key: RunKey,
        tasks: Vec<ReplayedTask>,
        now: Timestamp,
    ) -> Result<Vec<ReplayedTask>> {
        self.pass("fix_replayed", self.inner.store.fix_replayed(key, tasks, now)).await
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

    async fn revoke_key(&self, key: KeyHash, now: Timestamp) -> Result<()> {
        self.pass("revoke_key", self.inner.store.revoke_key(key, now)).await
    }

    async fn accepted_keys(&self) -> Result<Vec<KeyHash>> {
        self.pass("accepted_keys", self.inner.store.accepted_keys()).await
    }

    async fn caller_of(&self, key: KeyHash) -> Result<Option<CallerId>> {
        self.pass("caller_of", self.inner.store.caller_of(key)).await
    }
}
