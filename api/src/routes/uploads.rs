//! The bytes of an upload (SPEC 6.9). No key: the URL is signed. Never in memory: they go to the store as they arrive. Where
//! callers send them to the storage by themselves, there is no such route.

use super::inputs::refuse_closed;
use crate::body::{announced_length, check_encoding};
use crate::incoming::Incoming;
use crate::path::{Id, Path, upload_of};
use crate::problem::{ApiError, Code, Result};
use crate::query::Query;
use crate::request_rates::Who;
use crate::shares::{Place, in_flight};
use crate::signed_url::{SIGNATURE_PARAMS, UploadPath};
use crate::staged;
use crate::state::{ApiState, Shared};
use crate::wire::input::too_large;
use axum::Json;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_TYPE, ETAG};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use conveyor_domain::ingest::upload::Part;
use conveyor_domain::{CallerId, Staged, Upload, UploadId};
use conveyor_wire::{Uploaded, UploadedPart};
use futures::Stream;

pub(super) async fn put_whole(
    State(state): State<Shared>,
    Path((Id(caller), Id(upload))): Path<(Id<CallerId>, Id<UploadId>)>,
    query: Query,
    request: Request,
) -> Result<Response> {
    refuse_direct(&state)?;
    let path = UploadPath { caller, upload };
    // Before any lookup: without a signature nobody learns what exists.
    let signed_for = path.verify(&state.secret, &query.only(SIGNATURE_PARAMS)?, state.now())?;
    check_content_type(request.headers(), signed_for)?;
    in_flight::admit(&state, request.extensions(), Who::Upload(caller)).await?;
    let upload = open_slot(&state, caller, upload).await?;
    let announced = announced_length(request.headers());
    if let (Some(declared), Some(announced)) = (upload.declared.size, announced)
        && declared != announced
    {
        return Err(staged::size_mismatch(Some(declared), announced));
    }
    let (_place, pieces) = receive(&state, &upload, request, state.config.list_max_bytes).await?;
    let staged = staged::write_counted(&state, &upload, pieces).await?;
    if let Err(error) = staged::check_declared(&upload.declared, &staged) {
        staged::discard(&state, &staged).await;
        return Err(error);
    }
    let kept = state.store().put_staged(upload.id, staged.clone(), None, state.now()).await;
    staged::settle(&state, &staged, kept).await.map_err(ApiError::of_upload)?;
    let body = Uploaded { file_input_id: upload.id, size_bytes: staged.size, sha256: staged.etag.clone() };
    Ok(([(ETAG, quoted(&staged))], Json(body)).into_response())
}

pub(super) async fn put_part(
    State(state): State<Shared>,
    Path((Id(caller), Id(upload), Id(number))): Path<(Id<CallerId>, Id<UploadId>, Id<u32>)>,
    query: Query,
    request: Request,
) -> Result<Response> {
    refuse_direct(&state)?;
    let path = UploadPath { caller, upload };
    path.verify_part(number, &state.secret, &query.only(SIGNATURE_PARAMS)?, state.now())?;
    in_flight::admit(&state, request.extensions(), Who::Upload(caller)).await?;
    let upload = open_slot(&state, caller, upload).await?;
    // All parts together are one list: what the others take is not there for this one.
    let others = state.store().parts(upload.id).await?;
    let others: u64 = others.iter().filter(|part| part.number != number).map(|part| part.staged.size).sum();
    let room = state.config.list_max_bytes.saturating_sub(others);
    let (_place, pieces) = receive(&state, &upload, request, room).await?;
    let staged = staged::write(&state, upload.id, pieces).await?;
    let part = Part { number, staged: staged.clone() };
    let kept = state.store().put_part(upload.id, part, state.now()).await;
    staged::settle(&state, &staged, kept).await.map_err(ApiError::of_upload)?;
    let (size_bytes, etag) = (staged.size, staged.etag.clone());
    let body = UploadedPart { file_input_id: upload.id, number, size_bytes, etag };
    Ok(([(ETAG, quoted(&staged))], Json(body)).into_response())
}

fn refuse_direct(state: &ApiState) -> Result<()> {
    if state.direct().is_some() { Err(ApiError::not_found()) } else { Ok(()) }
}

/// An upload whose bytes can still be sent: whoever cannot send them learns it before they are on their way.
async fn open_slot(state: &ApiState, caller: CallerId, upload: UploadId) -> Result<Upload> {
    let upload = upload_of(state, caller, upload).await?;
    refuse_closed(&upload)?;
    Ok(upload)
}

fn check_content_type(headers: &HeaderMap, signed_for: &'static str) -> Result<()> {
    match headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes() == signed_for.as_bytes()) {
        true => Ok(()),
        false => {
            let detail = format!("The URL is signed for `Content-Type: {signed_for}`.");
            Err(ApiError::new(Code::SignatureInvalid, detail))
        }
    }
}

/// A body of at most `max` bytes, and its place among those that are taken in.
async fn receive(
    state: &ApiState,
    upload: &Upload,
    request: Request,
    max: u64,
) -> Result<(Place<CallerId>, impl Stream<Item = Result<Bytes>> + Send + 'static)> {
    check_encoding(request.headers())?;
    let place = take_place(state, upload.caller)?;
    let list_max = state.config.list_max_bytes;
    let announced = announced_length(request.headers());
    // An honest client is told before it sends; what a dishonest one sends is counted.
    if announced.is_some_and(|length| length > max) {
        return Err(too_large(list_max));
    }
    let body = Incoming::new(request.into_body(), announced, state.config.shares.body);
    Ok((place, body.up_to(max, move || too_large(list_max))))
}

/// Of those that take in a list, or join the parts of one.
pub(super) fn take_place(state: &ApiState, caller: CallerId) -> Result<Place<CallerId>> {
    let detail = "The caller uploads as many lists at once as it may; wait for one to end.";
    state.uploads.take(caller).map_err(|full| full.refuse(Code::TooManyUploads, detail))
}

fn quoted(staged: &Staged) -> String {
    format!("\"{}\"", staged.etag)
}
