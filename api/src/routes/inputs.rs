//! Upload slots (SPEC 6.9): made, looked at, completed, aborted. Their bytes come in by [`super::uploads`].

use crate::auth::Caller;
use crate::body::LargeJson;
use crate::cursor::Cursors;
use crate::direct;
use crate::path::{Id, OwnedUpload};
use crate::problem::{ApiError, Code, Result};
use crate::query::{NoQuery, Query};
use crate::show;
use crate::signed_url::{BaseUrl, UploadPath};
use crate::staged;
use crate::state::{ApiState, Shared};
use crate::wire::input::InputRequest;
use crate::wire::read;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use conveyor_domain::{Timestamp, Upload, UploadId, limits};
use conveyor_store::port::UploadsQuery;
use conveyor_wire::{Input, Inputs, PartTargets, SignParts, UploadTarget};

pub(super) async fn create(
    caller: Caller,
    State(state): State<Shared>,
    base: BaseUrl,
    body: LargeJson,
) -> Result<Response> {
    let list_max = state.config.list_max_bytes;
    let InputRequest { spec, mut declared, multipart } =
        body.parse(|bytes, warnings| InputRequest::parse(bytes, list_max, warnings))?;
    if multipart {
        declared = declared.in_parts(state.backend.capabilities.part_min_bytes, list_max);
    }
    let now = state.now();
    let id = UploadId::new(now, &state.entropy);
    let mut upload = Upload { multipart, declared, ..Upload::new(id, caller.id, spec, now) };
    if let Some(direct) = state.direct() {
        // First: a slot of which nobody knows how to send its parts would be of no use.
        upload.parts_handle = direct::parts::begin(direct, &upload).await?;
    }
    if let Err(error) = state.store().create_upload(upload.clone(), limits::UPLOADS_MAX).await {
        if upload.parts_handle.is_some() {
            direct::parts::forget(&state, upload.id).await;
        }
        return Err(error.into());
    }
    let location = format!("/v1/job_inputs/{}", upload.id);
    let json = with_target(&state, &base, &upload).await?;
    Ok((StatusCode::CREATED, [(LOCATION, location)], Json(json)).into_response())
}

pub(super) async fn list(caller: Caller, State(state): State<Shared>, query: Query) -> Result<Json<Inputs>> {
    let asked = query.page(Cursors::new(&state, caller.id, "job_inputs"))?;
    let look = limits::LIST_LOOK_MAX;
    let wanted = UploadsQuery { caller: caller.id, before: asked.after, limit: asked.limit + 1, look };
    let mut page = state.list(caller.id, state.store().uploads(wanted, state.now())).await?;
    let next_cursor = asked.scanned(&mut page, |upload| upload.id);
    let job_inputs = page.rows.iter().map(|upload| show::input(upload, None)).collect();
    Ok(Json(Inputs { job_inputs, next_cursor }))
}

pub(super) async fn show(
    OwnedUpload { state, mut upload, .. }: OwnedUpload,
    base: BaseUrl,
    _: NoQuery,
) -> Result<Json<Input>> {
    let parts = match state.direct() {
        None => state.store().parts(upload.id).await?,
        Some(direct) => {
            upload = direct::seen(&state, direct, upload).await?;
            direct::parts::list(direct, &upload).await?
        }
    };
    let parts = show::parts(&upload, &parts);
    Ok(Json(Input { parts, ..with_target(&state, &base, &upload).await? }))
}

pub(super) async fn abort(
    caller: Caller,
    State(state): State<Shared>,
    id: Result<Id<UploadId>>,
    _: NoQuery,
) -> Result<StatusCode> {
    let Id(upload) = id.map_err(|_| ApiError::upload_not_found())?;
    staged::abort(&state, caller.id, upload).await.map_err(ApiError::of_upload)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Signs URLs for parts.
pub(super) async fn sign_parts(
    OwnedUpload { state, upload, .. }: OwnedUpload,
    base: BaseUrl,
    body: LargeJson,
) -> Result<Json<PartTargets>> {
    let wanted: SignParts = body.parse(read)?;
    refuse_whole(&upload)?;
    refuse_closed(&upload)?;
    let (path, expires) = (path_of(&upload), url_expiry(&state, &upload));
    let target =
        |number| show::part_target(number, path.signed_part(number, &state.secret, &base, expires), expires);
    let parts = match state.direct() {
        None => wanted.numbers.0.into_iter().map(|number| target(number.0)).collect(),
        Some(direct) => direct::parts::sign(&state, direct, &upload, &wanted, expires).await?,
    };
    Ok(Json(PartTargets { parts }))
}

/// For a route about parts.
pub(super) fn refuse_whole(upload: &Upload) -> Result<()> {
    match upload.multipart {
        true => Ok(()),
        false => Err(ApiError::new(Code::Conflict, "The file input was not made with `multipart` true.")),
    }
}

/// For a route that brings bytes.
pub(super) fn refuse_closed(upload: &Upload) -> Result<()> {
    use conveyor_domain::Refusal;
    match (upload.claimed, upload.multipart && upload.staged.is_some()) {
        (true, _) => Err(Refusal::UploadClaimed.into()),
        (false, true) => Err(Refusal::UploadComplete.into()),
        (false, false) => Ok(()),
    }
}

fn path_of(upload: &Upload) -> UploadPath {
    UploadPath { caller: upload.caller, upload: upload.id }
}

/// When a URL that is signed now expires, to the second: never later than the slot.
fn url_expiry(state: &ApiState, upload: &Upload) -> Timestamp {
    let expires = state.now().after(limits::UPLOAD_URL_TTL).min(upload.expires);
    Timestamp(expires.as_ms() / 1000 * 1000)
}

/// The slot, with a fresh URL as long as its bytes can be sent: an upload that was interrupted goes on with it.
async fn with_target(state: &ApiState, base: &BaseUrl, upload: &Upload) -> Result<Input> {
    let part_min = state.direct().map(|_| state.backend.capabilities.part_min_bytes);
    let mut input = show::input(upload, part_min);
    if !upload.multipart && !upload.claimed {
        input.upload = Some(target(state, base, upload).await?);
    }
    Ok(input)
}

async fn target(state: &ApiState, base: &BaseUrl, upload: &Upload) -> Result<UploadTarget> {
    let expires = url_expiry(state, upload);
    if let Some(direct) = state.direct() {
        return direct::target(state, direct, upload, expires).await;
    }
    let url = path_of(upload).signed(&upload.spec, &state.secret, base, expires);
    let headers = [("Content-Type".to_owned(), upload.spec.content_type().to_owned())];
    Ok(show::whole_target(url, headers.into(), expires))
}
