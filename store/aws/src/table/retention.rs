//! Removing what was deleted or is past its time, a bounded number of rows a step (SPEC 6.6, 6.16).

use super::Table;
use super::discovery::ENDED;
use super::item::{Item, Row, corrupt};
use super::keys::{self, GSI2};
use super::read::Range;
use super::rows::{DELETED, JobRow, RunRow};
use super::tombstones::TombstoneRow;
use super::transact::Condition;
use async_trait::async_trait;
use conveyor_domain::dispatch::grant::Scope;
use conveyor_domain::{JobId, JobStatus, RunStatus, Storage, Timestamp, limits};
use conveyor_store::Result;
use conveyor_store::port::{Retention, RunKey, Tombstone, read_each};
use futures::FutureExt;
use std::time::Duration;

/// DynamoDB removes rows within about two days of their time, for nothing.
const REMOVES_BY_ITSELF_WITHIN: Duration = Duration::from_secs(3 * 24 * 3600);

/// Whether a run in this state can come to that.
fn may_become(storage: Storage, status: RunStatus) -> bool {
    match (storage, status) {
        (Storage::Removed, RunStatus::Deleted) => true,
        (Storage::Expired, RunStatus::Completed | RunStatus::Stopped | RunStatus::Failed) => true,
        (Storage::Kept | Storage::Expired | Storage::Removed, _) => false,
    }
}

impl Table {
    async fn deleted(&self, job: JobId) -> Result<Option<JobRow>> {
        Ok(self.find_job(job).await?.filter(|row| row.job.status == JobStatus::Deleted))
    }

    /// All runs of a job, and its template.
    pub async fn run_rows(&self, job: JobId) -> Result<Vec<RunRow>> {
        let rows = self.all(&Range::of(keys::job_partition(job), keys::RUNS)).await?;
        rows.iter().map(RunRow::decode).collect()
    }

    pub async fn remove_some(&self, partition: String, prefix: &str, limit: u32) -> Result<u32> {
        let mut rows =
            self.first(&Range::of(partition, prefix).by(limit).keys_only(), limit as usize).await?;
        rows.truncate(limit as usize);
        self.delete_all(&rows).await?;
        Ok(u32::try_from(rows.len()).unwrap_or(limit))
    }

    /// Up to `limit` rows of these kinds, wherever the tasks of a job may be.
    async fn remove_tasks(&self, job: JobId, shards: u32, prefixes: [&str; 2], limit: u32) -> Result<u32> {
        for partition in keys::task_partitions(job, shards) {
            for prefix in prefixes {
                let removed = self.remove_some(partition.clone(), prefix, limit).await?;
                if removed > 0 {
                    return Ok(removed);
                }
            }
        }
        Ok(0)
    }

    async fn remove_prefix(&self, job: JobId, prefix: &str) -> Result<()> {
        let range = Range::of(keys::job_partition(job), prefix).keys_only();
        self.delete_all(&self.all(&range).await?).await
    }

    /// What is left beside a job that is gone. Nobody adds to it any more, and a crash leaves it to the next look.
    async fn remove_rest(&self, job: JobId) -> Result<()> {
        for prefix in [keys::EVENTS, keys::COUNTERS, keys::RUNS] {
            self.remove_prefix(job, prefix).await?;
        }
        let (budget, marker) = (keys::budget(&Scope::Job(job)), keys::submitting(job));
        self.delete_all(&[budget.attributes(), marker.attributes()]).await
    }

    /// Marks a run whose rows are gone; one that is not in the state for it stays as it is.
    async fn mark_removed(&self, key: RunKey, storage: Storage) -> Result<()> {
        let mut backoff = self.backoff();
        loop {
            let Some(mut run) = self.find_run(key).await? else { return Ok(()) };
            if run.run.storage == storage || !may_become(storage, run.run.status) {
                return Ok(());
            }
            if storage == Storage::Removed {
                // Before the mark: a crash in between finds it again.
                self.remove_prefix(key.job, &keys::counters(key.run)).await?;
            }
            let job = self.find_job(key.job).await?;
            let seen = Condition::version(run.version);
            (run.run.storage, run.version) = (storage, run.version + 1);
            let mut writes = vec![self.put(run.encode()?, Some(seen))?];
            if let Some((mut job, upload)) = job.and_then(|job| Some((job.clone(), job.upload?))) {
                let kept = |other: &RunRow| other.run.id != key.run && other.run.storage == Storage::Kept;
                if !self.run_rows(key.job).await?.iter().any(kept) {
                    job.upload = None;
                    writes.extend(self.release_upload(upload, key.job).await?);
                }
                // Written in any case: of two runs that are removed at once, the later must see the earlier.
                let seen = Condition::version(job.version);
                job.version += 1;
                writes.push(self.put(job.encode()?, Some(seen))?);
            }
            if self.transact(writes).await?.is_ok() {
                return Ok(());
            }
            backoff.wait("the end of a run").await?;
        }
    }
}

#[async_trait]
impl Retention for Table {
    async fn deleted_jobs(&self, limit: u32) -> Result<Vec<JobId>> {
        let range = Range::everything(DELETED.to_owned()).in_index(GSI2).by(limit);
        let rows = self.first(&range, limit as usize).await?;
        let id = |item: &Item| -> Result<JobId> {
            keys::job_of(Row(item).text(keys::PK)?).ok_or_else(|| corrupt("job id"))
        };
        rows.iter().take(limit as usize).map(id).collect()
    }

    async fn remove_rows(&self, job: JobId, limit: u32) -> Result<u32> {
        let Some(item) = self.get(&keys::job(job)).await? else { return Ok(0) };
        let tombstone = TombstoneRow::decode(&item)?;
        let shards = match (&tombstone, JobRow::decode(&item)?) {
            (Some(row), _) => row.shards,
            (None, Some(row)) if row.job.status == JobStatus::Deleted => row.job.spec.task_shard_count,
            (None, _) => return Ok(0),
        };
        let removed = self.remove_tasks(job, shards, [keys::ATTEMPTS, keys::TASKS], limit).await?;
        if removed > 0 {
            return Ok(removed);
        }
        if tombstone.is_some() {
            self.remove_rest(job).await?;
            return Ok(0);
        }
        self.remove_some(keys::job_partition(job), keys::EVENTS, limit).await
    }

    async fn forget_job(&self, job: JobId, now: Timestamp) -> Result<bool> {
        self.latest.learn(now);
        let mut backoff = self.backoff();
        loop {
            let Some(row) = self.deleted(job).await? else { return Ok(false) };
            let mut runs = self.run_rows(job).await?;
            // A run whose queue is still there waits for the other sweep, which finds queues by their runs.
            if runs.iter().any(|run| !run.queue_removed) {
                return Ok(false);
            }
            runs.sort_by_key(|run| run.run.sequence);
            let tombstone = TombstoneRow {
                tombstone: Tombstone {
                    job,
                    runs: runs.iter().rev().take(limits::TOMBSTONE_RUNS).map(|run| run.run.id).collect(),
                    gone: now,
                    looks: 0,
                },
                shards: row.job.spec.task_shard_count,
                due: now.after(limits::TOMBSTONE_LOOKS[0]),
            };
            // Together: a job without its run could not be read. Earlier runs go behind it, so that it names them all.
            let mut writes = vec![self.put(tombstone.encode()?, Some(Condition::version(row.version)))?];
            for run in runs.iter().filter(|run| run.run.id == row.job.latest_run) {
                let seen = Condition::version(run.version);
                writes.push(self.delete(&keys::run(job, run.run.id), Some(seen))?);
            }
            if let Some(upload) = row.upload {
                writes.extend(self.release_upload(upload, job).await?);
            }
            if self.transact(writes).await?.is_ok() {
                self.remove_rest(job).await?;
                return Ok(true);
            }
            backoff.wait("the end of a job").await?;
        }
    }

    async fn tombstones(&self, now: Timestamp, limit: u32) -> Result<Vec<Tombstone>> {
        self.due_tombstones(now, limit).await
    }

    async fn looked_at(&self, tombstone: &Tombstone, next: Option<Timestamp>) -> Result<()> {
        self.count_look(tombstone, next).await
    }

    async fn ended_runs_with_queue(&self, limit: u32) -> Result<Vec<RunKey>> {
        let mut found = Vec::new();
        for place in ENDED {
            found.extend(self.discovered(place, limit as usize).await?);
        }
        found.truncate(limit as usize);
        Ok(found)
    }

    async fn queue_removed(&self, key: RunKey) -> Result<()> {
        let mut backoff = self.backoff();
        loop {
            let Some(mut run) = self.find_run(key).await? else { return Ok(()) };
            if run.queue_removed {
                return Ok(());
            }
            let seen = Condition::version(run.version);
            (run.queue_removed, run.version) = (true, run.version + 1);
            if self.put_if(run.encode()?, seen).await? {
                return Ok(());
            }
            backoff.wait("the end of a queue").await?;
        }
    }

    async fn deleted_runs(&self, limit: u32) -> Result<Vec<RunKey>> {
        let found = self.discovered_deleted().await?;
        let looks = found.into_iter().map(|key| (key, self.find_job(key.job).boxed()));
        let place = |key: &RunKey| (key.job.to_string(), key.job.to_string());
        let jobs = read_each("job", place, looks.collect()).await.found()?;
        let stay = jobs
            .into_iter()
            .filter(|(_, job)| job.as_ref().is_some_and(|row| row.job.status != JobStatus::Deleted));
        Ok(stay.map(|(key, _)| key).take(limit as usize).collect())
    }

    async fn expired_runs(&self, ended_before: Timestamp, limit: u32) -> Result<Vec<RunKey>> {
        let mut found = self.discovered_expired(ended_before, limit as usize).await?;
        found.truncate(limit as usize);
        Ok(found)
    }

    async fn remove_run_rows(&self, key: RunKey, limit: u32) -> Result<u32> {
        let run = self.find_run(key).await?.filter(|row| row.run.status.is_terminal());
        let Some(run) = run else { return Ok(0) };
        let (attempts, tasks) = (keys::attempts_of(key.run), keys::tasks_of(key.run));
        self.remove_tasks(key.job, run.shards, [&attempts, &tasks], limit).await
    }

    async fn run_removed(&self, key: RunKey, storage: Storage) -> Result<()> {
        self.mark_removed(key, storage).await
    }

    async fn abandoned_submits(&self, begun_before: Timestamp, limit: u32) -> Result<Vec<JobId>> {
        self.given_up_submits(begun_before, limit).await
    }

    async fn remove_submit(&self, job: JobId, limit: u32) -> Result<u32> {
        self.remove_submitted(job, limit).await
    }

    fn removes_by_itself_within(&self) -> Duration {
        REMOVES_BY_ITSELF_WITHIN
    }
}
