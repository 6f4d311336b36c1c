//! Joins the parts of an upload (SPEC 6.9).

use super::inputs::refuse_whole;
use super::uploads::take_place;
use crate::body::LargeJson;
use crate::counting;
use crate::direct;
use crate::path::{OwnedUpload, upload_of};
use crate::problem::{ApiError, Code, Result};
use crate::shares::in_flight;
use crate::show;
use crate::staged;
use crate::state::ApiState;
use crate::wire::input::too_large;
use crate::wire::parts::check_complete;
use crate::wire::read;
use axum::Json;
use axum::http::Extensions;
use conveyor_domain::ingest::upload::Part;
use conveyor_domain::{Refusal, Staged, Upload};
use conveyor_store::Error;
use conveyor_wire::{CompleteParts, Input};

pub(super) async fn complete(
    OwnedUpload { state, caller, upload }: OwnedUpload,
    extensions: Extensions,
    body: Option<LargeJson>,
) -> Result<Json<Input>> {
    let named = match &body {
        Some(body) => body.parse(read::<CompleteParts>)?.parts.map(|parts| parts.0),
        None => None,
    };
    refuse_whole(&upload)?;
    if let Some(direct) = state.direct() {
        direct::parts::complete(&state, direct, &upload, named.as_deref()).await?;
        let upload = upload_of(&state, caller, upload.id).await?;
        return Ok(shown(&upload, &[]));
    }
    let parts = state.store().parts(upload.id).await?;
    check_complete(&parts, named.as_deref())?;
    if upload.staged.is_none() {
        let place = take_place(&state, caller)?;
        let (state, upload, parts) = (state.clone(), upload.clone(), parts.clone());
        // A caller that hangs up half way must not leave an object that nobody names.
        let joining = async move { join(&state, &upload, &parts).await };
        in_flight::to_the_end(in_flight::of(&extensions), place, joining).await?;
    }
    let upload = upload_of(&state, caller, upload.id).await?;
    if upload.staged.is_none() {
        // Not joined by us, and by nobody else either: a part was replaced while we read it.
        return Err(ApiError::new(Code::FileInputIncomplete, "A part was replaced meanwhile."));
    }
    Ok(shown(&upload, &parts))
}

fn shown(upload: &Upload, parts: &[Part]) -> Json<Input> {
    Json(Input { parts: show::parts(upload, parts), ..show::input(upload, None) })
}

/// Makes the parts the staged list, unless somebody else does so at the same time.
async fn join(state: &ApiState, upload: &Upload, parts: &[Part]) -> Result<()> {
    let max = state.config.list_max_bytes;
    if parts.iter().map(|part| part.staged.size).sum::<u64>() > max {
        return Err(too_large(max));
    }
    let keys = parts.iter().map(|part| staged::key_of(&part.staged)).collect::<Result<Vec<_>>>()?;
    let key = state.upload_object(upload.id);
    let counting = counting::parts(state, &upload.spec, keys.clone());
    let (joined, count) = tokio::join!(state.backend.blobs.concat(&key, &keys), counting);
    let stored = match joined {
        Ok(stored) => stored,
        // Parts go once they are joined: whoever took them away has done so, or is about to replace one.
        Err(Error::NotFound) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let joined = Staged { count: count.map(Box::new), ..staged::staged(&key, stored) };
    if let Err(error) = staged::check_declared(&upload.declared, &joined) {
        staged::discard(state, &joined).await;
        return Err(error);
    }
    let kept = state.store().put_staged(upload.id, joined.clone(), Some(parts.to_vec()), state.now()).await;
    match staged::settle(state, &joined, kept).await {
        Ok(()) => {
            for part in parts {
                staged::discard(state, &part.staged).await;
            }
            Ok(())
        }
        // Another `complete` was first, and a job was made of what it joined.
        Err(Error::Refused(Refusal::UploadClaimed)) => Ok(()),
        // A part was replaced while it was joined: what was asked for is not what is there any more.
        Err(Error::Conflict(_)) => Ok(()),
        Err(other) => Err(ApiError::of_upload(other)),
    }
}
