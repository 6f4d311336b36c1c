//! The file of an export, for whoever holds its URL. On S3 the URL leads there, and nobody comes here.

use super::exports::{corrupt, export_of, file_name};
use crate::path::{Id, Path};
use crate::problem::{ApiError, Result};
use crate::query::Query;
use crate::request_rates::Who;
use crate::shares::in_flight;
use crate::signed_url::{ExportPath, READ_PARAMS};
use crate::state::Shared;
use axum::body::Body;
use axum::extract::State;
use axum::http::Extensions;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use conveyor_domain::{ExportId, JobId, RunId, RunStatus, export};
use conveyor_store::Error;
use conveyor_store::port::BlobKey;
use futures::TryStreamExt;

pub(super) async fn by_signature(
    State(state): State<Shared>,
    Path((Id(job), Id(run), Id(export))): Path<(Id<JobId>, Id<RunId>, Id<ExportId>)>,
    query: Query,
    extensions: Extensions,
) -> Result<Response> {
    let query = query.only(READ_PARAMS)?;
    // Before any lookup: without a signature nobody learns what exists.
    let caller = ExportPath { job, run, export }.verify(&state.secret, &query, state.now())?;
    in_flight::admit(&state, &extensions, Who::Signed(caller)).await?;
    let view = state.store().run(job, run).await?;
    view.filter(|view| view.run.status != RunStatus::Deleted).ok_or_else(ApiError::not_found)?;
    let (_, export) = export_of(&state, run, export).await?;
    let export::State::Completed { object, size } = &export.state else { return Err(ApiError::not_found()) };
    let key: BlobKey = object.parse().map_err(|_| corrupt(export.id))?;
    let bytes = match state.backend.blobs.read(&key).await {
        Ok(bytes) => bytes,
        Err(Error::NotFound) => return Err(ApiError::not_found()),
        Err(error) => return Err(error.into()),
    };
    let id = export.id;
    // An answer that began well can only be broken off.
    let bytes =
        bytes.inspect_err(move |error| tracing::error!(export = %id, %error, "an export cannot be read"));
    let headers = [
        (CONTENT_TYPE, export.format.content_type().to_owned()),
        (CONTENT_LENGTH, size.to_string()),
        (CONTENT_DISPOSITION, format!("attachment; filename=\"{}\"", file_name(&export))),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    Ok((headers, Body::from_stream(bytes)).into_response())
}
