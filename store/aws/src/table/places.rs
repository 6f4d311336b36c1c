//! What never changes about a run, remembered: where its rows are. The spec of a job is not: its limits can change.

use super::remembered::Remembered;
use super::rows::{JobRow, RunRow};
use super::{Table, keys};
use conveyor_domain::{JobId, RunId};
use conveyor_store::Result;
use conveyor_store::port::RunKey;

#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub shards: u32,
    pub seed: RunId,
}

pub type Places = Remembered<RunKey, Place>;

impl Table {
    pub async fn find_run(&self, key: RunKey) -> Result<Option<RunRow>> {
        Ok(self.find_listed(key).await?.filter(RunRow::is_run))
    }

    /// A run, or a template: its tasks are listed to make runs of them.
    pub async fn find_listed(&self, key: RunKey) -> Result<Option<RunRow>> {
        let item = self.get(&keys::run(key.job, key.run)).await?;
        let found = item.as_ref().map(RunRow::decode).transpose()?;
        if let Some(row) = &found {
            self.places.remember(key, Place { shards: row.shards, seed: row.run.id_seed });
        }
        Ok(found)
    }

    pub async fn find_job(&self, job: JobId) -> Result<Option<JobRow>> {
        let item = self.get(&keys::job(job)).await?;
        Ok(item.as_ref().map(JobRow::decode).transpose()?.flatten())
    }

    /// Where the rows of a run are; `None` if there is no such run.
    pub async fn place(&self, key: RunKey) -> Result<Option<Place>> {
        if let Some(place) = self.places.recall(&key) {
            return Ok(Some(place));
        }
        Ok(self.find_run(key).await?.map(|row| Place { shards: row.shards, seed: row.run.id_seed }))
    }
}
