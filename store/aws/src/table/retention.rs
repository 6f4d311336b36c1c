//! Removing deleted jobs and noting removed queues, a bounded number of rows a step.

use super::Table;
use super::discovery::ENDED;
use super::item::{Item, Row, corrupt};
use super::keys::{self, GSI2};
use super::read::Range;
use super::rows::{DELETED, JobRow, RunRow};
use super::transact::Condition;
use async_trait::async_trait;
use conveyor_domain::grant::Scope;
use conveyor_domain::{JobId, JobStatus};
use conveyor_store::Result;
use conveyor_store::port::{Retention, RunKey};

impl Table {
    async fn deleted(&self, job: JobId) -> Result<Option<JobRow>> {
        Ok(self.find_job(job).await?.filter(|row| row.job.status == JobStatus::Deleted))
    }

    async fn run_rows(&self, job: JobId) -> Result<Vec<RunRow>> {
        let rows = self.all(&Range::of(keys::job_partition(job), keys::RUNS)).await?;
        rows.iter().map(RunRow::decode).collect()
    }

    async fn remove_some(&self, partition: String, prefix: &str, limit: u32) -> Result<u32> {
        let mut rows =
            self.first(&Range::of(partition, prefix).by(limit).keys_only(), limit as usize).await?;
        rows.truncate(limit as usize);
        self.delete_all(&rows).await?;
        Ok(u32::try_from(rows.len()).unwrap_or(limit))
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
        let Some(row) = self.deleted(job).await? else { return Ok(0) };
        for partition in keys::task_partitions(job, row.job.spec.task_shard_count) {
            for prefix in [keys::ATTEMPTS, keys::TASKS] {
                let removed = self.remove_some(partition.clone(), prefix, limit).await?;
                if removed > 0 {
                    return Ok(removed);
                }
            }
        }
        self.remove_some(keys::job_partition(job), keys::EVENTS, limit).await
    }

    async fn forget_job(&self, job: JobId) -> Result<bool> {
        let mut backoff = self.backoff();
        loop {
            let Some(row) = self.deleted(job).await? else { return Ok(false) };
            let runs = self.run_rows(job).await?;
            // A run whose queue is still there waits for the other sweep, which finds queues by their runs.
            if runs.iter().any(|run| !run.queue_removed) {
                return Ok(false);
            }
            let (latest, earlier): (Vec<_>, Vec<_>) =
                runs.into_iter().partition(|run| run.run.id == row.job.latest_run);
            for run in &earlier {
                let counters = Range::of(keys::job_partition(job), &keys::counters(run.run.id));
                self.delete_all(&self.all(&counters).await?).await?;
                self.delete_all(&[keys::run(job, run.run.id).attributes()]).await?;
            }
            let leftovers = self.all(&Range::of(keys::job_partition(job), keys::EVENTS)).await?;
            self.delete_all(&leftovers).await?;
            self.delete_all(&[
                keys::budget(&Scope::Job(job)).attributes(),
                keys::submitting(job).attributes(),
            ])
            .await?;
            for run in &latest {
                let counters = Range::of(keys::job_partition(job), &keys::counters(run.run.id));
                self.delete_all(&self.all(&counters).await?).await?;
            }
            // Together: a job without its run could not be read.
            let mut writes = vec![self.delete(&keys::job(job), Some(Condition::version(row.version)))?];
            for run in &latest {
                let seen = Condition::version(run.version);
                writes.push(self.delete(&keys::run(job, run.run.id), Some(seen))?);
            }
            if let Some(upload) = row.upload {
                writes.extend(self.release_upload(upload, job).await?);
            }
            if self.transact(writes).await?.is_ok() {
                return Ok(true);
            }
            backoff.wait("the end of a job").await?;
        }
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
}
