//! Files of a run's results (SPEC 6.22): asked for, looked at, removed. Whoever builds them is another role.

use crate::body::LargeJson;
use crate::cursor::Cursors;
use crate::path::{Id, OwnedRun, Path};
use crate::problem::{ApiError, Code, Result};
use crate::query::{NoQuery, Query};
use crate::request_rates::Who;
use crate::shares::in_flight;
use crate::signed_url::{BaseUrl, ExportPath, Link, READ_PARAMS, ReadPath, link_expires};
use crate::state::{ApiState, Shared};
use crate::wire::read;
use axum::body::Body;
use axum::http::header::{
    CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, LOCATION, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{Extensions, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Json, extract};
use conveyor_domain::export::{Progress, State};
use conveyor_domain::job::record::Expected;
use conveyor_domain::{
    CallerId, Export, ExportId, JobId, JobStatus, Record, RecordKind, RecordWrite, RunId, RunStatus, limits,
};
use conveyor_store::Error;
use conveyor_store::port::{BlobKey, RecordsQuery, RunKey, Validity, readable};
use conveyor_wire::{self as wire, ExportStatus, Exports, StartExport, Time};
use futures::TryStreamExt;

/// How long a caller waits before it looks [s].
const LOOK_AFTER: &str = "2";
/// How often a removal is decided anew, should a builder write in between.
const REMOVE_TRIES: usize = 5;

pub(super) async fn start(found: OwnedRun, body: Option<LargeJson>) -> Result<Response> {
    let request = body.map(|body| body.parse(read::<StartExport>)).transpose()?.unwrap_or_default();
    let format = request.format.unwrap_or_default();
    let RunKey { job, run } = found.rows().await?;
    let OwnedRun { state, caller, .. } = &found;
    refuse_too_many(state, run).await?;
    let now = state.now();
    let export = Export::new(ExportId::new(now, &state.entropy), job, run, format, now)
        .asked_by(caller.id, found.view.stats.total);
    let write = RecordWrite::put(export.record(&state.entropy), Expected::Absent);
    if !state.store().write_record(write).await? {
        return Err(Error::Conflict("another export has this id".to_owned()).into());
    }
    let location = format!("/v1/jobs/{job}/runs/{run}/exports/{}", export.id);
    let headers = [(LOCATION, location), (RETRY_AFTER, LOOK_AFTER.to_owned())];
    let started = wire::StartedExport {
        export_id: export.id,
        status: status(&export).into(),
        format: export.format.into(),
        created_at: Time(export.created),
        expires_at: Time(export.expires()),
    };
    Ok((StatusCode::ACCEPTED, headers, Json(started)).into_response())
}

pub(super) async fn list(found: OwnedRun, base: BaseUrl, query: Query) -> Result<Json<Exports>> {
    let RunKey { job, run } = kept(&found)?;
    let OwnedRun { state, caller, .. } = &found;
    let asked = query.page(Cursors::new(state, caller.id, &format!("exports|{job}|{run}")))?;
    let mut records = state.list(caller.id, newest(state, run, asked.after, asked.limit + 1)).await?;
    let next_cursor = asked.page(&mut records, |record| record.key.id.clone());
    let mut exports = parsed(&records)?;
    retain_shown(state, &mut exports).await?;
    let mut all = Vec::with_capacity(exports.len());
    for export in &exports {
        all.push(shown(export, download_url(state, caller.id, &base, export).await?));
    }
    Ok(Json(Exports { exports: all, next_cursor }))
}

pub(super) async fn show(
    found: OwnedRun,
    Id(id): Id<ExportId>,
    base: BaseUrl,
    _: NoQuery,
) -> Result<Json<wire::Export>> {
    let OwnedRun { state, caller, .. } = &found;
    let (_, export) = export_of(state, kept(&found)?.run, id).await?;
    let download_url = download_url(state, caller.id, &base, &export).await?;
    Ok(Json(shown(&export, download_url)))
}

/// Nobody sees it from then on; its objects go with the next look of a builder.
pub(super) async fn remove(found: OwnedRun, Id(id): Id<ExportId>, _: NoQuery) -> Result<StatusCode> {
    let (state, run) = (&found.state, kept(&found)?.run);
    for _ in 0..REMOVE_TRIES {
        let (record, export) = export_of(state, run, id).await?;
        let removed = export.removed(state.now()).record(&state.entropy);
        let write = RecordWrite::put(removed, Expected::Version(record.version));
        if state.store().write_record(write).await? {
            return Ok(StatusCode::NO_CONTENT);
        }
    }
    Err(Error::Unavailable("the export is written to all the time".to_owned()).into())
}

/// The file of an export, by its signed URL. On S3 the URL is a presigned one and this route is not used.
pub(super) async fn by_signature(
    extract::State(state): extract::State<Shared>,
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
    let State::Completed { object, size } = &export.state else { return Err(ApiError::not_found()) };
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

/// An export of a run that is deleted is not there, whether or not anybody has removed it yet.
fn kept(found: &OwnedRun) -> Result<RunKey> {
    let deleted = found.job.status == JobStatus::Deleted || found.view.run.status == RunStatus::Deleted;
    if deleted { Err(ApiError::not_found()) } else { Ok(found.key()) }
}

/// An export that can be seen, with its record.
async fn export_of(state: &ApiState, run: RunId, id: ExportId) -> Result<(Record, Export)> {
    let record = state.store().record(&Export::key(run, id)).await?.ok_or_else(ApiError::not_found)?;
    let export: Export = record.parse().map_err(Error::from)?;
    match export.is_there(state.judged_at(|now| !export.is_there(now)).await?) {
        true => Ok((record, export)),
        false => Err(ApiError::not_found()),
    }
}

async fn retain_shown(state: &ApiState, exports: &mut Vec<Export>) -> Result<()> {
    let now = state.judged_at(|now| exports.iter().any(|export| !export.is_there(now))).await?;
    exports.retain(|export| export.is_there(now));
    Ok(())
}

async fn newest(
    state: &ApiState,
    run: RunId,
    before: Option<ExportId>,
    limit: u32,
) -> conveyor_store::Result<Vec<Record>> {
    let query = RecordsQuery {
        kind: RecordKind::Export,
        owner: run.to_string(),
        after: before.map(|id| id.to_string()),
        newest_first: true,
        limit,
    };
    state.store().records(query).await
}

/// Those that can be read.
fn parsed(records: &[Record]) -> Result<Vec<Export>> {
    let mut exports = Vec::new();
    for record in records {
        exports.extend(readable("export", || record.key.id.clone(), record.parse().map_err(Error::from))?);
    }
    Ok(exports)
}

/// Counted and then written, so that callers who ask at the same time may get a few more: it keeps nobody from anything but
/// having thousands.
async fn refuse_too_many(state: &ApiState, run: RunId) -> Result<()> {
    let mut exports = parsed(&newest(state, run, None, limits::EXPORTS_OF_RUN_MAX).await?)?;
    retain_shown(state, &mut exports).await?;
    let live = exports.iter().filter(|export| !export.is_over()).count();
    let detail = if live >= limits::EXPORTS_LIVE_MAX {
        format!("The run has {live} exports that are not finished, which is as many as it may have.")
    } else if exports.len() >= limits::EXPORTS_OF_RUN_MAX as usize {
        format!("The run has {} exports: delete some, or wait until they expire.", exports.len())
    } else {
        return Ok(());
    };
    Err(ApiError::new(Code::QuotaExceeded, detail))
}

/// Where a finished export can be had without a key, for a while: signed anew whenever somebody looks.
async fn download_url(
    state: &ApiState,
    caller: CallerId,
    base: &BaseUrl,
    export: &Export,
) -> Result<Option<Link>> {
    let State::Completed { object, .. } = &export.state else { return Ok(None) };
    let from = state.now();
    let Some(until) = link_expires(from, state.config.result_url_ttl, export.expires()) else {
        return Ok(None);
    };
    if let Some(direct) = state.direct() {
        let object: BlobKey = object.parse().map_err(|_| corrupt(export.id))?;
        let (content_type, name) = (export.format.content_type(), file_name(export));
        let url = direct.get_url(&object, content_type, Some(&name), Validity { from, until }).await?;
        return Ok(Some(Link { url, expires: until }));
    }
    let path = ExportPath { job: export.job, run: export.run, export: export.id };
    Ok(Some(Link { url: path.signed(caller, &state.secret, base, until), expires: until }))
}

fn shown(export: &Export, download: Option<Link>) -> wire::Export {
    let (download_url, download_url_expires_at) = download.map(|link| (link.url, Time(link.expires))).unzip();
    let Progress { tasks_done, tasks_total, bytes } = export.progress;
    wire::Export {
        export_id: export.id,
        status: status(export).into(),
        format: export.format.into(),
        progress: wire::Progress { tasks_done, tasks_total, bytes },
        error: if let State::Failed { error } = &export.state { Some(error.clone()) } else { None },
        download_url,
        download_url_expires_at,
        created_at: Time(export.created),
        expires_at: Time(export.expires()),
    }
}

fn status(export: &Export) -> ExportStatus {
    match export.state {
        State::Pending { .. } => ExportStatus::Pending,
        State::Running { .. } => ExportStatus::Running,
        State::Completed { .. } => ExportStatus::Completed,
        // One that was removed is not shown.
        State::Failed { .. } | State::Removed { .. } => ExportStatus::Failed,
    }
}

/// What whoever downloads it is to call it.
fn file_name(export: &Export) -> String {
    format!("results-{}.{}", export.run, export.format.as_str())
}

fn corrupt(export: ExportId) -> ApiError {
    Error::Corrupt(format!("export {export}: its object key is not one")).into()
}
