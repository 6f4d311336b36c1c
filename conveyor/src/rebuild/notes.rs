//! What a rebuild has to remember in case it is killed, so that the next one ends what it began: objects beside the results,
//! each of which is there or not.

use super::failure::{Failure, patiently};
use bytes::Bytes;
use conveyor_domain::JobId;
use conveyor_store::port::BlobKey;
use conveyor_store::{Backend, Error};

conveyor_domain::words! {
    pub enum Note {
        /// The run was paused by a rebuild, not by its owner: it is to be resumed.
        Paused = "paused",
        /// The job was restored as paused: whether its owner had paused it is lost.
        Anew = "anew",
        /// Refs may be missing although the queue is not empty.
        Refs = "refs",
    }
}

fn key_of(job: JobId, note: Note) -> Result<BlobKey, Failure> {
    parse(&format!("jobs/{job}/rebuild/{note}"))
}

fn parse(key: &str) -> Result<BlobKey, Failure> {
    key.parse().map_err(|_| Error::Corrupt(format!("not a key: {key}")).into())
}

pub async fn take(backend: &Backend, job: JobId, note: Note) -> Result<(), Failure> {
    let key = key_of(job, note)?;
    patiently(|| backend.blobs.put(&key, Bytes::from_static(b"1\n"))).await
}

pub async fn is_taken(backend: &Backend, job: JobId, note: Note) -> Result<bool, Failure> {
    let key = key_of(job, note)?;
    match patiently(|| backend.blobs.get(&key, 0, 1)).await {
        Ok(_) => Ok(true),
        Err(failure) if failure.is_not_found() => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// Everything is done.
pub async fn drop_all(backend: &Backend, job: JobId) -> Result<(), Failure> {
    let prefix = parse(&format!("jobs/{job}/rebuild"))?;
    patiently(|| backend.blobs.delete_under(&prefix)).await
}
