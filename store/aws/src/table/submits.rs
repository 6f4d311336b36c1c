//! Submits under way: a marker says that rows are being written that nobody can see yet (SPEC 5.4). Of one that was given
//! up, the marker tells what to remove.

use super::item::{Draft, Item, Row, corrupt, number, text, time_to_live};
use super::keys::{self, GSI2, GSI2_PK, GSI2_SK};
use super::read::Range;
use super::rows::SUBMITTING;
use super::transact::{Condition, Expression};
use super::{Table, tombstones};
use conveyor_domain::{JobId, RunId, Timestamp};
use conveyor_store::port::Submission;
use conveyor_store::{Error, Result};
use futures::FutureExt;
use std::time::Duration;

/// Only for a marker that a repeat of a submit left beside its job, which nobody has a reason to look for.
const MARKER_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

#[derive(Debug)]
struct Marker {
    run: RunId,
    shards: u32,
    /// Its rows are being removed: it must not become visible any more.
    doomed: bool,
}

/// It may still become visible.
pub fn not_doomed() -> Condition {
    Condition {
        expression: "attribute_exists(pk) AND attribute_not_exists(doom)".to_owned(),
        values: Vec::new(),
    }
}

/// As markers sort: by when they were written.
fn begun(at: Timestamp) -> String {
    format!("{:015}", at.0.max(0))
}

impl Table {
    pub async fn mark_submitting(&self, submission: &Submission) -> Result<()> {
        let (job, at) = (submission.job.id, submission.job.created);
        let marker = Draft::at(&keys::submitting(job))
            .set("run", text(submission.job.latest_run.to_string()))
            .set("sh", number(submission.job.spec.task_shard_count))
            .set(keys::TTL, time_to_live(at, MARKER_KEPT))
            .set(GSI2_PK, text(SUBMITTING))
            .set(GSI2_SK, text(format!("{}#{job}", begun(at))))
            .item();
        // A repeat must not undo what a sweep decided: its rows would be removed under it.
        let condition = Condition { expression: "attribute_not_exists(doom)".to_owned(), values: Vec::new() };
        if self.put_if(marker, condition).await? {
            return Ok(());
        }
        Err(Error::Conflict("rows of an earlier try are being removed".to_owned()))
    }

    async fn find_marker(&self, job: JobId) -> Result<Option<Marker>> {
        let Some(item) = self.get(&keys::submitting(job)).await? else { return Ok(None) };
        let row = Row(&item);
        let doomed = row.find_number::<u8>("doom")?.is_some();
        Ok(Some(Marker { run: row.parsed("run")?, shards: row.number("sh")?, doomed }))
    }

    pub async fn given_up_submits(&self, begun_before: Timestamp, limit: u32) -> Result<Vec<JobId>> {
        let range = Range::up_to(SUBMITTING.to_owned(), begun(begun_before)).in_index(GSI2).by(limit.max(1));
        let key = |item: &Item| keys::job_of(Row(item).text(keys::PK)?).ok_or_else(|| corrupt("job id"));
        let place = |job: &JobId| (job.to_string(), job.to_string());
        let read = |job: JobId| {
            // In this order: a submit removes its marker in the step in which it makes its job visible.
            let abandoned = async move {
                let is = self.find_marker(job).await?.is_some() && self.find_job(job).await?.is_none();
                Ok(is.then_some(job))
            };
            (job, abandoned.boxed())
        };
        self.named("submit", &range, limit as usize, key, place, read).await
    }

    pub async fn remove_submitted(&self, job: JobId, limit: u32) -> Result<u32> {
        let Some(marker) = self.find_marker(job).await? else { return Ok(0) };
        if !marker.doomed && !self.doom_submit(job).await? {
            return Ok(0);
        }
        for partition in keys::task_partitions(job, marker.shards) {
            let removed = self.remove_some(partition, &keys::tasks_of(marker.run), limit).await?;
            if removed > 0 {
                return Ok(removed);
            }
        }
        // Last: until then it is found again.
        let doomed = Condition { expression: "attribute_exists(doom)".to_owned(), values: Vec::new() };
        self.transact(vec![self.delete(&keys::submitting(job), Some(doomed))?]).await?.ok();
        Ok(0)
    }

    /// Sees to it that a submit never becomes visible; false if it did, or is gone.
    async fn doom_submit(&self, job: JobId) -> Result<bool> {
        let marker = keys::submitting(job);
        let doom = Expression { text: "SET doom = :one".to_owned(), values: vec![(":one", number(1))] };
        let writes = vec![
            self.check(&keys::job(job), tombstones::no_job())?,
            self.update(&marker, doom, Some(Condition::present()))?,
        ];
        match self.transact(writes).await? {
            Ok(()) => Ok(true),
            Err(unmet) => {
                if unmet.at(0).is_some() {
                    // A repeat left it beside its job: it says nothing true.
                    self.delete_all(&[marker.attributes()]).await?;
                }
                Ok(false)
            }
        }
    }
}
