//! What is left of a job: its rows, if there are any, and the list that it was made of.

use super::failure::{Failure, patiently};
use conveyor_api::Accepted;
use conveyor_domain::ingest::Source;
use conveyor_domain::limits::MIB;
use conveyor_domain::{IngestEvent, Job, JobId, JobStatus, Run, RunId, RunStatus, Timestamp, retention};
use conveyor_store::port::{BlobKey, Reader, RunKey};
use conveyor_store::{Backend, Error};
use futures::TryStreamExt;

/// A specification with every field at its limit is far from it.
const ACCEPTED_MAX_BYTES: usize = 8 * MIB;

pub struct Found {
    pub key: RunKey,
    pub source: Source,
    pub rows: Rows,
}

pub enum Rows {
    /// There is no such job; this is what it was accepted with.
    Lost(Box<Accepted>),
    Kept(Box<(Job, Run)>),
}

impl Found {
    pub fn run(&self) -> Option<&Run> {
        match &self.rows {
            Rows::Lost(_) => None,
            Rows::Kept(kept) => Some(&kept.1),
        }
    }
}

pub async fn look(
    backend: &Backend,
    job: JobId,
    run: Option<RunId>,
    now: Timestamp,
) -> Result<Found, Failure> {
    let accepted = accepted(backend, job).await?;
    let view = patiently(|| backend.store.job(None, job)).await?;
    let Some(view) = view else {
        let accepted = accepted.ok_or_else(|| {
            Failure::not_rebuildable(
                "there is no such job, and no object that says what it was accepted with: its tasks were in the request, \
                 or it was deleted",
            )
        })?;
        if run.is_some_and(|run| run != accepted.run_id) {
            return Err(Failure::not_rebuildable("what was kept of the job is not about that run"));
        }
        let key = RunKey { job, run: accepted.run_id };
        return Ok(Found { key, source: accepted.source.clone(), rows: Rows::Lost(Box::new(accepted)) });
    };
    if view.job.status == JobStatus::Deleted {
        return Err(Failure::not_rebuildable("it was deleted"));
    }
    let key = RunKey { job, run: run.unwrap_or(view.job.latest_run) };
    let found = patiently(|| backend.store.run(job, key.run)).await?;
    let run = found.ok_or_else(|| Failure::not_rebuildable("it has no such run"))?.run;
    if run.status == RunStatus::Deleted {
        return Err(Failure::not_rebuildable("the run was deleted"));
    }
    if retention::rows_are_over(&run, now) {
        return Err(Failure::not_rebuildable("the run ended so long ago that nothing of it is kept"));
    }
    let source = source(backend, key, &run, accepted).await?;
    Ok(Found { key, source, rows: Rows::Kept(Box::new((view.job, run))) })
}

/// By the log of its ingest; or, if that is lost, by what it was accepted with.
async fn source(
    backend: &Backend,
    key: RunKey,
    run: &Run,
    accepted: Option<Accepted>,
) -> Result<Source, Failure> {
    let kept = accepted.filter(|accepted| accepted.run_id == key.run).map(|accepted| accepted.source);
    let logged = backend.store.ingest(key, Reader::Role).await;
    if let Ok(Some(ingest)) = &logged
        && let Some(IngestEvent::Accepted { source }) = ingest.log.first().map(|first| &first.event)
    {
        return Ok(source.clone());
    }
    match kept {
        Some(_) if run.is_ingesting() => Err(Failure::not_rebuildable(
            "its list was not read to the end, and the log that says how far it was is lost",
        )),
        Some(source) => Ok(source),
        None => {
            logged?;
            Err(Failure::not_rebuildable("its tasks were in the request: there is no list to read again"))
        }
    }
}

async fn accepted(backend: &Backend, job: JobId) -> Result<Option<Accepted>, Failure> {
    let key = BlobKey::accepted(job);
    let read = patiently(|| async {
        let mut stream = backend.blobs.read(&key).await?;
        let mut bytes = Vec::new();
        while let Some(piece) = stream.try_next().await? {
            bytes.extend_from_slice(&piece);
            if bytes.len() > ACCEPTED_MAX_BYTES {
                return Err(Error::Corrupt(format!("{key} is too long")));
            }
        }
        Ok(bytes)
    });
    let bytes = match read.await {
        Ok(bytes) => bytes,
        Err(failure) if failure.is_not_found() => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let unreadable =
        |why| Failure::not_rebuildable(format!("what it was accepted with cannot be read: {why}"));
    Accepted::parse(&bytes).map(Some).map_err(unreadable)
}

/// The list as it was accepted: the same bytes, and all of them.
pub async fn check_source(backend: &Backend, source: &Source) -> Result<(), Failure> {
    let key: BlobKey = source.staged.object.parse().map_err(|_| Failure::source_missing())?;
    let looked = patiently(|| async {
        // The embedded store compares the whole digest before it gives out the first piece; S3 compares its own.
        backend.blobs.read_pinned(&key, &source.staged.etag, 0).await?.try_next().await
    });
    match looked.await {
        Ok(_) => Ok(()),
        Err(failure) if failure.is_not_found() => Err(Failure::source_missing()),
        Err(failure) => Err(failure),
    }
}
