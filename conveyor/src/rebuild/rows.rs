//! The list becomes rows again: all of it, or those that are missing.

use super::Rebuilder;
use super::failure::{Failure, patiently};
use super::found::Found;
use super::notes::{self, Note};
use super::pages::Pages;
use super::refs::Unsent;
use conveyor_domain::{Job, JobSpec, Run, TaskInput};
use conveyor_ingest::End;
use conveyor_store::port::{RunKey, StatusFilter};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Tries that come to nothing in a row.
const TROUBLES_MAX: u32 = 8;

impl Rebuilder {
    /// Goes on with the ingest of a run until it is over, whoever else does (SPEC 6.11).
    pub async fn ingest(&self, key: RunKey) -> Result<(), Failure> {
        let bar = self.progress.bar("reading the list", 0);
        let stop = CancellationToken::new();
        let mut troubles = 0;
        loop {
            let ended = {
                let ingesting = self.ingester.ingest(key, &stop);
                tokio::pin!(ingesting);
                loop {
                    tokio::select! {
                        ended = &mut ingesting => break ended,
                        () = tokio::time::sleep(LOOK_EVERY) => {
                            if let Ok(Some(view)) = self.backend.store.run(key.job, key.run).await {
                                bar.set_position(view.run.total.into());
                            }
                        }
                    }
                }
            };
            match ended {
                Ok(End::Over) => return Ok(()),
                Ok(End::Gone) => return Err(Failure::not_rebuildable("it was deleted meanwhile")),
                // Somebody else took the step: what is left to do is found out anew.
                Ok(End::Lost | End::Stopped) => {}
                Err(trouble) if troubles < TROUBLES_MAX => {
                    tracing::warn!(error = %trouble, "the list could not be read on; trying again");
                    troubles += 1;
                }
                Err(trouble) => return Err(trouble.into()),
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Writes the rows of a list that was read before, those that are missing. Whoever writes a row sends its ref.
    pub async fn put_missing(
        &self,
        found: &Found,
        job: &Job,
        run: &Run,
        unsent: &mut Unsent,
    ) -> Result<(), Failure> {
        let present = self.present(found.key, run).await?;
        let bar = self.progress.bar("writing rows", u64::from(run.next_index));
        let mut list = self.ingester.rows_again(job.id, &found.source, job.spec.clone()).await?;
        // A kill between a row and its ref must not lose that.
        notes::take(&self.backend, job.id, Note::Refs).await?;
        while let Some(rows) = list.next().await? {
            let read = rows.len();
            let missing: Vec<(u32, TaskInput)> =
                rows.into_iter().filter(|(index, _)| present.get(*index as usize) == Some(&false)).collect();
            if !missing.is_empty() {
                let now = self.clock.now();
                patiently(|| self.backend.store.put_tasks(found.key, missing.clone(), now)).await?;
            }
            bar.inc(read as u64);
        }
        unsent.all_but_written(present);
        Ok(())
    }

    /// Which rows are there, up to where the list was read: a run that was stopped half way has no more than that.
    async fn present(&self, key: RunKey, run: &Run) -> Result<Vec<bool>, Failure> {
        let mut present = vec![false; run.next_index as usize];
        let mut pages = Pages::new(&self.backend, key, StatusFilter::All);
        while let Some(page) = pages.next().await? {
            for task in page {
                if let Some(there) = present.get_mut(task.id.index() as usize) {
                    *there = true;
                }
            }
        }
        Ok(present)
    }

    /// How many tasks a list has.
    pub async fn count_list(&self, found: &Found, spec: &Arc<JobSpec>) -> Result<u64, Failure> {
        let mut list = self.ingester.rows_again(found.key.job, &found.source, spec.clone()).await?;
        let mut tasks = 0;
        while let Some(rows) = list.next().await? {
            tasks += rows.len() as u64;
        }
        Ok(tasks)
    }
}
