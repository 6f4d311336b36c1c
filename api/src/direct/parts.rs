//! Lists that callers send to the storage in parts.

use super::checksum_mismatch;
use crate::problem::{ApiError, Code, Result};
use crate::show;
use crate::staged::{self, size_mismatch};
use crate::state::ApiState;
use crate::wire::input::too_large;
use crate::wire::parts::check_complete;
use conveyor_domain::ingest::upload::Part;
use conveyor_domain::{Refusal, Staged, Timestamp, Upload, UploadId};
use conveyor_store::Error;
use conveyor_store::port::{BlobKey, DirectAccess, Joined, Stored, Validity};
use conveyor_wire::{NamedPart, SignParts, UploadTarget, Within};
use futures::TryStreamExt;
use sha2::{Digest, Sha256};

/// Begins parts for a slot that is about to be made, and returns what they are known by.
pub(crate) async fn begin(direct: &dyn DirectAccess, upload: &Upload) -> Result<Option<String>> {
    if !upload.multipart {
        return Ok(None);
    }
    Ok(Some(direct.begin_parts(&BlobKey::sent(upload.id), upload.spec.content_type()).await?))
}

/// Removes what was begun for a slot that was not made after all.
pub(crate) async fn forget(state: &ApiState, upload: UploadId) {
    if let Err(error) = state.backend.blobs.delete_under(&BlobKey::upload_prefix(upload)).await {
        tracing::warn!(%upload, %error, "parts that were begun stay behind");
    }
}

pub(crate) async fn sign(
    state: &ApiState,
    direct: &dyn DirectAccess,
    upload: &Upload,
    wanted: &SignParts,
    until: Timestamp,
) -> Result<Vec<UploadTarget>> {
    let (key, handle) = (BlobKey::sent(upload.id), handle_of(upload)?);
    let validity = Validity { from: state.now(), until };
    let mut targets = Vec::with_capacity(wanted.numbers.0.len());
    let wanted_size = wanted.size_bytes.map(|size| size.0);
    for Within(number) in &wanted.numbers.0 {
        let size = size_of(upload, *number, wanted_size, state.config.list_max_bytes)?;
        let url = direct.part_url(&key, handle, *number, size, validity).await?;
        targets.push(show::part_target(*number, url, until));
    }
    Ok(targets)
}

/// How many bytes a part has, which is what its URL takes. `None`, of a slot of an earlier version: as many as come.
fn size_of(upload: &Upload, number: u32, wanted: Option<u64>, list_max: u64) -> Result<Option<u64>> {
    let declared = &upload.declared;
    let (Some(room), Some(part_bytes)) = (declared.part_room(number, list_max), declared.part_bytes) else {
        return Ok(None);
    };
    let size = wanted.unwrap_or(room);
    if size > part_bytes {
        let detail = format!("`size_bytes` must be at most the `part_bytes` of the slot, {part_bytes}.");
        return Err(ApiError::invalid(detail));
    }
    match size == 0 || size > room {
        true => Err(too_large(declared.size.unwrap_or(list_max))),
        false => Ok(Some(size)),
    }
}

/// The parts that are there, until they are joined.
pub(crate) async fn list(direct: &dyn DirectAccess, upload: &Upload) -> Result<Vec<Part>> {
    if !upload.multipart || upload.staged.is_some() {
        return Ok(Vec::new());
    }
    Ok(direct.parts(&BlobKey::sent(upload.id), handle_of(upload)?).await?.unwrap_or_default())
}

/// Makes the parts the staged list. Whoever repeats it, or does it at the same time, gets the same.
pub(crate) async fn complete(
    state: &ApiState,
    direct: &dyn DirectAccess,
    upload: &Upload,
    named: Option<&[NamedPart]>,
) -> Result<()> {
    if upload.staged.is_some() {
        return Ok(());
    }
    let key = BlobKey::sent(upload.id);
    let joined = staged::staged(&key, join(state, direct, upload, named).await?);
    check_sha256(state, upload, &key, &joined).await?;
    match state.store().put_staged(upload.id, joined, None, state.now()).await {
        // The object is the slot's own, and everybody who completes it stages the same.
        Ok(_) | Err(Error::Refused(Refusal::UploadClaimed)) => Ok(()),
        Err(other) => Err(ApiError::of_upload(other)),
    }
}

async fn join(
    state: &ApiState,
    direct: &dyn DirectAccess,
    upload: &Upload,
    named: Option<&[NamedPart]>,
) -> Result<Stored> {
    let (key, handle) = (BlobKey::sent(upload.id), handle_of(upload)?);
    let outcome = match direct.parts(&key, handle).await? {
        None => Joined::Gone,
        Some(parts) => {
            check_complete(&parts, named)?;
            check_sizes(state, upload, &parts)?;
            direct.join_parts(&key, handle, &parts).await?
        }
    };
    let incomplete = |detail| ApiError::new(Code::FileInputIncomplete, detail);
    match outcome {
        Joined::Done(stored) => Ok(stored),
        Joined::Replaced => Err(incomplete("A part was replaced meanwhile.")),
        // They were joined, and only what came after that is missing.
        Joined::Gone => match direct.find(&key).await? {
            Some(found) => Ok(found.stored),
            None => Err(incomplete("The parts are gone.")),
        },
    }
}

fn check_sizes(state: &ApiState, upload: &Upload, parts: &[Part]) -> Result<()> {
    let (max, part_min) = (state.config.list_max_bytes, state.backend.capabilities.part_min_bytes);
    let total = parts.iter().map(|part| part.staged.size).sum();
    if total > max {
        return Err(too_large(max));
    }
    if upload.declared.size.is_some_and(|declared| declared != total) {
        return Err(size_mismatch(upload.declared.size, total));
    }
    match parts.iter().rev().skip(1).rfind(|part| part.staged.size < part_min) {
        None => Ok(()),
        Some(Part { number, staged }) => {
            let size = staged.size;
            Err(ApiError::invalid(format!(
                "Part {number} has {size} bytes, and every part but the last must have at least {part_min}."
            )))
        }
    }
}

/// The storage knows no digest of a whole that came in parts: if one was declared, the bytes are read.
async fn check_sha256(state: &ApiState, upload: &Upload, key: &BlobKey, joined: &Staged) -> Result<()> {
    let Some(declared) = &upload.declared.sha256 else { return Ok(()) };
    let mut bytes = state.backend.blobs.read_pinned(key, &joined.etag, 0).await?;
    let mut digest = Sha256::new();
    while let Some(piece) = bytes.try_next().await? {
        digest.update(&piece);
    }
    let sha256: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if sha256 == *declared { Ok(()) } else { Err(checksum_mismatch()) }
}

fn handle_of(upload: &Upload) -> Result<&str> {
    upload
        .parts_handle
        .as_deref()
        .ok_or_else(|| ApiError::internal("an upload in parts that was never begun"))
}
