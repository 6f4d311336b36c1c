//! What never changes about a run, remembered: where its rows are, and the spec of its job.

use super::rows::{JobRow, RunRow};
use super::{Table, keys};
use conveyor_domain::{Job, JobId, RunId};
use conveyor_store::Result;
use conveyor_store::port::RunKey;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

/// Runs and jobs that are remembered. Forgetting costs a read.
const REMEMBERED_MAX: usize = 10_000;

#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub shards: u32,
    pub seed: RunId,
}

#[derive(Debug, Default)]
pub struct Places {
    runs: Mutex<HashMap<RunKey, Place>>,
    jobs: Mutex<HashMap<JobId, Job>>,
}

fn remember<K: Eq + Hash, V>(known: &Mutex<HashMap<K, V>>, key: K, value: V) {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() >= REMEMBERED_MAX {
        known.clear();
    }
    known.insert(key, value);
}

fn recall<K: Eq + Hash, V: Clone>(known: &Mutex<HashMap<K, V>>, key: &K) -> Option<V> {
    known.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
}

impl Table {
    pub async fn find_run(&self, key: RunKey) -> Result<Option<RunRow>> {
        let item = self.get(&keys::run(key.job, key.run)).await?;
        let found = item.as_ref().map(RunRow::decode).transpose()?;
        if let Some(row) = &found {
            remember(&self.places.runs, key, Place { shards: row.shards, seed: row.run.id_seed });
        }
        Ok(found)
    }

    pub async fn find_job(&self, job: JobId) -> Result<Option<JobRow>> {
        let item = self.get(&keys::job(job)).await?;
        item.as_ref().map(JobRow::decode).transpose()
    }

    /// Where the rows of a run are; `None` if there is no such run.
    pub async fn place(&self, key: RunKey) -> Result<Option<Place>> {
        if let Some(place) = recall(&self.places.runs, &key) {
            return Ok(Some(place));
        }
        Ok(self.find_run(key).await?.map(|row| Place { shards: row.shards, seed: row.run.id_seed }))
    }

    /// A job as it once was: what its submit fixed is still true, its status may not be.
    pub async fn job_as_submitted(&self, job: JobId) -> Result<Option<Job>> {
        if let Some(job) = recall(&self.places.jobs, &job) {
            return Ok(Some(job));
        }
        let found = self.find_job(job).await?.map(|row| row.job);
        if let Some(found) = &found {
            remember(&self.places.jobs, job, found.clone());
        }
        Ok(found)
    }
}
