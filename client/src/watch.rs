//! Polling until something has ended.

use crate::{Answer, Client, Error};
use conveyor_wire::{Export, ExportStatus, Job};
use futures::stream::BoxStream;
use futures::{TryStreamExt, stream};
use std::fmt::Display;
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const CAP: Duration = Duration::from_secs(1);
/// An export can be long, and is fetched hours later: the client waits for a server to restart.
const SILENT_LOOKS_MAX: u32 = 10;

impl Client {
    /// The job again and again, until its latest run is over.
    pub fn watch(&self, job: impl Display) -> BoxStream<'static, Result<Answer<Job>, Error>> {
        let (client, job) = (self.clone(), job.to_string());
        let is_over = |job: &Job| job.latest_run.as_ref().is_some_and(|run| run.is_over());
        poll(0, is_over, move || client.job(&job).into_future())
    }

    /// Waits until the latest run of a job is over.
    pub async fn wait(&self, job: impl Display) -> Result<Answer<Job>, Error> {
        last(self.watch(job)).await
    }

    /// The export again and again, until it is complete or has failed.
    pub fn watch_export(
        &self,
        job: impl Display,
        run: impl Display,
        export: impl Display,
    ) -> BoxStream<'static, Result<Answer<Export>, Error>> {
        let client = self.clone();
        let (job, run, export) = (job.to_string(), run.to_string(), export.to_string());
        let is_over = |export: &Export| {
            export.status == ExportStatus::Completed || export.status == ExportStatus::Failed
        };
        poll(SILENT_LOOKS_MAX, is_over, move || client.export(&job, &run, &export).into_future())
    }
}

/// Looks until a look ends it, and less often with time. So many looks in a row may stay without an answer.
fn poll<T, F>(
    silent_max: u32,
    is_over: impl Fn(&T) -> bool + Send + 'static,
    look: impl Fn() -> F + Send + Sync + 'static,
) -> BoxStream<'static, Result<Answer<T>, Error>>
where
    F: Future<Output = Result<Answer<T>, Error>> + Send,
    T: Send + Sync + 'static,
{
    let start = Some(Duration::ZERO);
    Box::pin(stream::try_unfold((start, look, is_over), move |(wait, look, is_over)| async move {
        let Some(mut wait) = wait else { return Ok(None) };
        let mut silent = 0;
        let answer = loop {
            tokio::time::sleep(wait).await;
            wait = (wait * 5 / 4).clamp(FIRST, CAP);
            match look().await {
                Ok(answer) => break answer,
                Err(error) if error.problem().is_some() || silent == silent_max => return Err(error),
                Err(_) => silent += 1,
            }
        };
        let next = (!is_over(&answer)).then_some(wait);
        Ok(Some((answer, (next, look, is_over))))
    }))
}

async fn last<T>(mut looks: BoxStream<'static, Result<T, Error>>) -> Result<T, Error> {
    let mut last = None;
    while let Some(look) = looks.try_next().await? {
        last = Some(look);
    }
    last.ok_or_else(|| Error::NotUnderstood("there was nothing to wait for".to_owned()))
}
