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
use conveyor_domain::repair::Subject;
use conveyor_domain::{JobId, JobStatus, Storage, Timestamp, limits};
use conveyor_store::Result;
use conveyor_store::port::{Chore, Mark, Removal, Retention, RunKey, Tombstone, read_each};
use futures::FutureExt;
use std::time::Duration;

/// DynamoDB removes rows within about two days of their time, for nothing.
pub const REMOVES_BY_ITSELF_WITHIN: Duration = Duration::from_secs(3 * 24 * 3600);

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
    async fn rows_gone(&self, key: RunKey, storage: Storage) -> Result<()> {
        let mut backoff = self.backoff();
        loop {
            let Some(mut run) = self.find_run(key).await? else { return Ok(()) };
            if run.run.storage == storage || !storage.may_be_of(run.run.status) {
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

    async fn deleted_jobs(&self, limit: u32) -> Result<Vec<JobId>> {
        let range = Range::everything(DELETED.to_owned()).in_index(GSI2).by(limit);
        let rows = self.first(&range, limit as usize).await?;
        let id = |item: &Item| -> Result<JobId> {
            keys::job_of(Row(item).text(keys::PK)?).ok_or_else(|| corrupt("job id"))
        };
        rows.iter().take(limit as usize).map(id).collect()
    }

    async fn ended_queues(&self, limit: u32) -> Result<Vec<RunKey>> {
        let mut found = Vec::new();
        for place in ENDED {
            found.extend(self.discovered(place, limit as usize).await?);
        }
        Ok(found)
    }

    async fn deleted_runs(&self) -> Result<Vec<RunKey>> {
        let found = self.discovered_deleted().await?;
        let looks = found.into_iter().map(|key| (key, self.find_job(key.job).boxed()));
        let place = |key: &RunKey| (key.job.to_string(), key.job.to_string());
        let jobs = read_each("job", place, looks.collect()).await.found()?;
        let stay = jobs
            .into_iter()
            .filter(|(_, job)| job.as_ref().is_some_and(|row| row.job.status != JobStatus::Deleted));
        Ok(stay.map(|(key, _)| key).collect())
    }

    async fn remove_rows_of_job(&self, job: JobId, limit: u32) -> Result<u32> {
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

    async fn remove_rows_of_run(&self, key: RunKey, limit: u32) -> Result<u32> {
        let may_go = |row: &RunRow| row.run.status.is_terminal();
        let run = self.find_run(key).await?.filter(may_go);
        let Some(run) = run else { return Ok(0) };
        let (attempts, tasks) = (keys::attempts_of(key.run), keys::tasks_of(key.run));
        self.remove_tasks(key.job, run.shards, [&attempts, &tasks], limit).await
    }

    async fn queue_gone(&self, key: RunKey) -> Result<()> {
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
}

fn runs(keys: Vec<RunKey>) -> Vec<Subject> {
    keys.into_iter().map(|key| Subject::Run(key.job, key.run)).collect()
}

#[async_trait]
impl Retention for Table {
    async fn due(&self, chore: Chore, limit: u32) -> Result<Vec<Subject>> {
        let jobs = |jobs: Vec<JobId>| jobs.into_iter().map(Subject::Job).collect();
        let mut due: Vec<Subject> = match chore {
            Chore::DeletedJobs => jobs(self.deleted_jobs(limit).await?),
            Chore::AbandonedSubmits { begun_before } => {
                jobs(self.given_up_submits(begun_before, limit).await?)
            }
            Chore::EndedQueues => runs(self.ended_queues(limit).await?),
            Chore::DeletedRuns => runs(self.deleted_runs().await?),
            Chore::ExpiredRuns { ended_before } => {
                runs(self.discovered_expired(ended_before, limit as usize).await?)
            }
            Chore::ExpiredUploads { by } => {
                self.expired_uploads(by, limit).await?.into_iter().map(Subject::Upload).collect()
            }
        };
        due.truncate(limit as usize);
        Ok(due)
    }

    async fn remove_rows(&self, rows: Removal, limit: u32) -> Result<u32> {
        match rows {
            Removal::Job(job) => self.remove_rows_of_job(job, limit).await,
            Removal::Run(key) => self.remove_rows_of_run(key, limit).await,
            Removal::Submit(job) => self.remove_submitted(job, limit).await,
            // The table does so by itself.
            Removal::Records { .. } => Ok(0),
        }
    }

    async fn mark(&self, key: RunKey, mark: Mark) -> Result<()> {
        match mark {
            Mark::QueueGone => self.queue_gone(key).await,
            Mark::RowsGone(storage) => self.rows_gone(key, storage).await,
        }
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
}
