//! Staged bytes: how they get into the store, are read again, and go (SPEC 6.9).

use crate::counting;
use crate::incoming::for_store;
use crate::problem::{ApiError, Code, Result};
use crate::state::ApiState;
use bytes::Bytes;
use conveyor_domain::ingest::upload::Declared;
use conveyor_domain::{BrokenPromise, CallerId, Compression, ListFault, ListSpec, Staged, Upload, UploadId};
use conveyor_lists::{ExpandLimits, Expanded, ListError, ListReader, expand};
use conveyor_store::Error;
use conveyor_store::port::{BlobKey, Stored};
use futures::{Stream, StreamExt};
use std::io;
use tokio_util::io::StreamReader;

/// Writes bytes of an upload to a new object, as they arrive. Nobody refers to it yet.
pub(crate) async fn write(
    state: &ApiState,
    upload: UploadId,
    pieces: impl Stream<Item = Result<Bytes>> + Send + 'static,
) -> Result<Staged> {
    let key = state.upload_object(upload);
    let (stream, fault) = for_store(pieces);
    let stored = state.backend.blobs.put_stream(&key, stream).await.map_err(|error| fault.or(error))?;
    Ok(staged(&key, stored))
}

/// The same for all bytes of a list, which is counted on the way.
pub(crate) async fn write_counted(
    state: &ApiState,
    upload: &Upload,
    pieces: impl Stream<Item = Result<Bytes>> + Send + 'static,
) -> Result<Staged> {
    let (pieces, counting) = counting::passing(state, &upload.spec, pieces);
    let staged = write(state, upload.id, pieces).await?;
    Ok(Staged { count: counting.end().await.map(Box::new), ..staged })
}

pub(crate) fn staged(key: &BlobKey, Stored { size, etag }: Stored) -> Staged {
    Staged::new(key.to_string(), size, etag)
}

pub(crate) fn key_of(staged: &Staged) -> Result<BlobKey> {
    staged.object.parse().map_err(|_| not_a_key().into())
}

fn not_a_key() -> Error {
    Error::Corrupt("the key of a staged object is not one".to_owned())
}

/// Refuses bytes that are not what the slot was made for.
pub(crate) fn check_declared(declared: &Declared, staged: &Staged) -> Result<()> {
    match declared.broken_by(staged) {
        None => Ok(()),
        Some(BrokenPromise::Size) => Err(size_mismatch(declared.size, staged.size)),
        Some(BrokenPromise::Sha256) => {
            let detail = format!("The sha256 of the bytes is {}, which was not declared.", staged.etag);
            Err(ApiError::new(Code::UploadChecksumMismatch, detail))
        }
    }
}

pub(crate) fn size_mismatch(declared: Option<u64>, size: u64) -> ApiError {
    let declared = declared.unwrap_or_default();
    let detail = format!("{declared} bytes were declared, and there are {size}.");
    ApiError::new(Code::UploadSizeMismatch, detail)
}

/// Deletes an object that nobody refers to. One that stays goes with its slot.
pub(crate) async fn discard(state: &ApiState, staged: &Staged) {
    let deleted = match key_of(staged) {
        Ok(key) => state.backend.blobs.delete(&key).await,
        Err(_) => Ok(()),
    };
    if let Err(error) = deleted {
        tracing::warn!(%error, "a staged object was not deleted; a sweep will");
    }
}

/// Removes an upload that is not wanted any more, unless a job was made of it.
pub(crate) async fn abort(
    state: &ApiState,
    caller: CallerId,
    upload: UploadId,
) -> conveyor_store::Result<()> {
    state.store().doom_upload(upload, Some(caller), state.now()).await?;
    let prefix = BlobKey::upload_prefix(upload);
    let removed = match state.backend.blobs.delete_under(&prefix).await {
        Ok(()) => state.store().forget_upload(upload).await,
        Err(error) => Err(error),
    };
    if let Err(error) = removed {
        // It is marked: from here on it is only a matter of time.
        tracing::warn!(%upload, %error, "an upload was not removed; a sweep will");
    }
    Ok(())
}

/// Carries out what came of making bytes the staged ones: what nobody refers to any more goes.
pub(crate) async fn settle(
    state: &ApiState,
    ours: &Staged,
    kept: conveyor_store::Result<Option<Staged>>,
) -> conveyor_store::Result<()> {
    match kept {
        Ok(Some(replaced)) => discard(state, &replaced).await,
        Ok(None) => {}
        // They may be in place. If they are not, they go with their slot.
        Err(error @ (Error::Unavailable(_) | Error::Missing(_))) => return Err(error),
        Err(error) => {
            discard(state, ours).await;
            return Err(error);
        }
    }
    Ok(())
}

/// Opens staged bytes as the list that they are.
pub(crate) async fn open(
    state: &ApiState,
    staged: &Staged,
    spec: &ListSpec,
    expanded_max_bytes: u64,
) -> std::result::Result<(Compression, ListReader<Expanded>), ListError> {
    let expanded = expanded(state, staged, expanded_max_bytes).await?;
    let compression = expanded.compression();
    Ok((compression, ListReader::open(expanded, spec).await?))
}

/// Staged bytes without their compression.
pub(crate) async fn expanded(
    state: &ApiState,
    staged: &Staged,
    expanded_max_bytes: u64,
) -> std::result::Result<Expanded, ListError> {
    let failed = |error: Error| ListError::Read(io::Error::other(error));
    let key: BlobKey = staged.object.parse().map_err(|_| failed(not_a_key()))?;
    let bytes = state.backend.blobs.read_pinned(&key, &staged.etag, 0).await.map_err(failed)?;
    let bytes = StreamReader::new(bytes.map(|piece| piece.map_err(io::Error::other)));
    expand(bytes, ExpandLimits { expanded_max_bytes, ..ExpandLimits::default() }).await
}

pub(crate) fn list_failed(error: ListError) -> ApiError {
    match error {
        ListError::Fault { fault, line, detail } => ApiError::list(fault, line, &format!("{detail}.")),
        ListError::Read(error) => match error.downcast::<Error>() {
            Ok(error) => read_failed(error),
            Err(error) => ApiError::internal(error.to_string()),
        },
    }
}

fn read_failed(error: Error) -> ApiError {
    match error {
        // It was there a moment ago: another upload has taken its place since.
        Error::NotFound => ApiError::list(ListFault::SourceChanged, None, "The staged list was replaced."),
        other => other.into(),
    }
}
