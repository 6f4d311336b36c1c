//! Lists that callers send to the storage by themselves, where it lets them (SPEC 6.9, On S3). Nobody tells us when they
//! have: whoever needs to know looks.
//!
//! What a caller can write to it can also write to later. So a job never reads that object, but a copy of it, to which
//! nobody has a URL; and parts that are joined, which no URL can reach any more.

pub(crate) mod parts;

use crate::problem::{ApiError, Code, Result};
use crate::show;
use crate::staged::{self, size_mismatch};
use crate::state::ApiState;
use crate::wire::input::too_large;
use conveyor_domain::{Refusal, Staged, Timestamp, Upload};
use conveyor_store::Error;
use conveyor_store::port::{BlobKey, DirectAccess, Found, SignedPut, Validity};
use conveyor_wire::UploadTarget;

/// How often a submit looks again when a list was replaced while it was looked at.
pub(crate) const LOOKS_MAX: u32 = 4;

/// Where a caller sends a whole list.
pub(crate) async fn target(
    state: &ApiState,
    direct: &dyn DirectAccess,
    upload: &Upload,
    until: Timestamp,
) -> Result<UploadTarget> {
    let (key, validity) = (BlobKey::sent(upload.id), Validity { from: state.now(), until });
    let signed = direct.put_url(&key, upload.spec.content_type(), &upload.declared, validity).await?;
    let SignedPut { url, headers } = signed;
    Ok(show::whole_target(url, headers, until))
}

/// The slot as it looks with what was sent to it. Changes nothing: an object that is not what the slot was made for is
/// shown as none, and a submit says why.
pub(crate) async fn seen(state: &ApiState, direct: &dyn DirectAccess, upload: Upload) -> Result<Upload> {
    let Some(found) = find(direct, &upload).await? else { return Ok(upload) };
    let staged = check(state, &upload, &found).is_ok().then(|| {
        let key = BlobKey::sent(upload.id);
        staged::staged(&key, found.stored)
    });
    Ok(Upload { staged, ..upload })
}

/// The same, for whoever has to know why not: refuses an object that is not what the slot was made for.
pub(crate) async fn looked_at(state: &ApiState, direct: &dyn DirectAccess, upload: Upload) -> Result<Upload> {
    let Some(found) = find(direct, &upload).await? else { return Ok(upload) };
    check(state, &upload, &found)?;
    let staged = Some(staged::staged(&BlobKey::sent(upload.id), found.stored));
    Ok(Upload { staged, ..upload })
}

/// The slot with what was sent to it staged, so that nobody can change it any more. `source_changed` if it was replaced
/// meanwhile: looking again helps.
pub(crate) async fn stage(state: &ApiState, direct: &dyn DirectAccess, upload: Upload) -> Result<Upload> {
    let Some(found) = find(direct, &upload).await? else { return Ok(upload) };
    if upload.staged.as_ref().is_some_and(|staged| staged.copy_of.as_ref() == Some(&found.stored.etag)) {
        return Ok(upload);
    }
    check(state, &upload, &found)?;
    let key = state.upload_object(upload.id);
    let copied = direct.copy(&BlobKey::sent(upload.id), &found.stored, &key).await?;
    let staged = Staged { copy_of: Some(found.stored.etag), ..staged::staged(&key, copied) };
    let kept = state.store().put_staged(upload.id, staged.clone(), None, state.now()).await;
    match staged::settle(state, &staged, kept).await {
        Ok(()) => Ok(Upload { staged: Some(staged), ..upload }),
        // Another submit was first: what its job reads, this one's reads too.
        Err(Error::Refused(Refusal::UploadClaimed)) => Err(Error::Changed.into()),
        Err(other) => Err(ApiError::of_upload(other)),
    }
}

/// What was sent to a slot whose list may still be replaced.
async fn find(direct: &dyn DirectAccess, upload: &Upload) -> Result<Option<Found>> {
    if upload.multipart || upload.claimed {
        return Ok(None);
    }
    Ok(direct.find(&BlobKey::sent(upload.id)).await?)
}

/// Refuses bytes that are not what the slot was made for. The storage has checked what it was told to; a size that was not
/// declared it takes as it comes.
fn check(state: &ApiState, upload: &Upload, found: &Found) -> Result<()> {
    let (size, max) = (found.stored.size, state.config.list_max_bytes);
    if upload.declared.size.is_some_and(|declared| declared != size) {
        return Err(size_mismatch(upload.declared.size, size));
    }
    if size > max {
        return Err(too_large(max));
    }
    match &upload.declared.sha256 {
        Some(declared) if found.sha256.as_ref() != Some(declared) => Err(checksum_mismatch()),
        Some(_) | None => Ok(()),
    }
}

fn checksum_mismatch() -> ApiError {
    ApiError::new(Code::UploadChecksumMismatch, "The sha256 of the bytes is not the one that was declared.")
}
