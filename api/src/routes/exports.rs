//! Files of a run's results (SPEC 6.22): asked for, looked at, removed. Whoever builds them is another role.

use super::{FoundRun, run_of};
use crate::auth::Caller;
use crate::body;
use crate::cursor::Cursors;
use crate::path::{Id, Path};
use crate::problem::{ApiError, Code, Result};
use crate::query::Query;
use crate::show;
use crate::signed_url::{BaseUrl, ExportPath, Link, link_expires};
use crate::state::{ApiState, Shared};
use crate::warnings::{STRICT, Warnings};
use crate::wire::read;
use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{LOCATION, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use conveyor_domain::job::record::Expected;
use conveyor_domain::{
    CallerId, Export, ExportFormat, ExportId, JobId, JobStatus, Record, RecordKind, RecordWrite, RunId,
    RunStatus, Unreadable, export, limits,
};
use conveyor_store::Error;
use conveyor_store::port::{BlobKey, RecordsQuery, Validity, readable};
use conveyor_wire::{Exports, StartExport};

type InRun = (Id<JobId>, Id<RunId>);
type One = (Id<JobId>, Id<RunId>, Id<ExportId>);

/// How long a caller waits before it looks [s].
const LOOK_AFTER: &str = "2";
/// How often a removal is decided anew, should a builder write in between.
const REMOVE_TRIES: usize = 5;

pub(super) async fn start(
    caller: Caller,
    State(state): State<Shared>,
    Path((Id(job), Id(run))): Path<InRun>,
    query: Query,
    request: Request,
) -> Result<Response> {
    let warnings = Warnings::of(&request, &query.only(&[STRICT])?)?;
    let found = run_of(&state, &caller, job, Some(run)).await?;
    let body = body::read_json_if_any(request, state.config.max_body_bytes, &state.bodies).await?;
    let format = match &body {
        Some(body) => read::<StartExport>(&body.bytes, &warnings)?.format.unwrap_or_default(),
        None => ExportFormat::default(),
    };
    found.rows(&state).await?;
    refuse_too_many(&state, run).await?;
    let now = state.now();
    let export = Export::new(ExportId::new(now, &state.entropy), job, run, format, now)
        .asked_by(caller.id, found.view.stats.total);
    let write = RecordWrite::put(export.record(&state.entropy), Expected::Absent);
    if !state.store().write_record(write).await? {
        return Err(Error::Conflict("another export has this id".to_owned()).into());
    }
    let location = format!("/v1/jobs/{job}/runs/{run}/exports/{}", export.id);
    let headers = [(LOCATION, location), (RETRY_AFTER, LOOK_AFTER.to_owned())];
    Ok((StatusCode::ACCEPTED, headers, Json(show::started_export(&export))).into_response())
}

pub(super) async fn list(
    caller: Caller,
    State(state): State<Shared>,
    Path((Id(job), Id(run))): Path<InRun>,
    base: BaseUrl,
    query: Query,
) -> Result<Response> {
    kept(&run_of(&state, &caller, job, Some(run)).await?)?;
    let query = query.only(&["limit", "cursor"])?;
    let limit = query.limit(limits::PAGE_DEFAULT, limits::PAGE_MAX)?;
    let cursors = Cursors::new(&state, caller.id, &format!("exports|{job}|{run}"));
    let before: Option<ExportId> = cursors.open(query.get("cursor"))?;
    let mut records = state.list(caller.id, newest(&state, run, before, limit + 1)).await?;
    let next_cursor = cursors.page(&mut records, limit, |record| record.key.id.clone());
    let mut exports = parsed(&records)?;
    retain_shown(&state, &mut exports).await?;
    let mut shown = Vec::with_capacity(exports.len());
    for export in &exports {
        shown.push(show::export(export, download_url(&state, caller.id, &base, export).await?));
    }
    Ok(Json(Exports { exports: shown, next_cursor }).into_response())
}

pub(super) async fn show(
    caller: Caller,
    State(state): State<Shared>,
    Path((Id(job), Id(run), Id(id))): Path<One>,
    base: BaseUrl,
    query: Query,
) -> Result<Response> {
    query.none()?;
    kept(&run_of(&state, &caller, job, Some(run)).await?)?;
    let (_, export) = export_of(&state, run, id).await?;
    let download_url = download_url(&state, caller.id, &base, &export).await?;
    Ok(Json(show::export(&export, download_url)).into_response())
}

/// Nobody sees it from then on; its objects go with the next look of a builder.
pub(super) async fn remove(
    caller: Caller,
    State(state): State<Shared>,
    Path((Id(job), Id(run), Id(id))): Path<One>,
    query: Query,
) -> Result<Response> {
    query.none()?;
    kept(&run_of(&state, &caller, job, Some(run)).await?)?;
    for _ in 0..REMOVE_TRIES {
        let (record, export) = export_of(&state, run, id).await?;
        let removed = export.removed(state.now()).record(&state.entropy);
        let write = RecordWrite::put(removed, Expected::Version(record.version));
        if state.store().write_record(write).await? {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
    }
    Err(Error::Unavailable("the export is written to all the time".to_owned()).into())
}

/// An export of a run that is deleted is not there, whether or not anybody has removed it yet.
fn kept(found: &FoundRun) -> Result<()> {
    let deleted = found.job.status == JobStatus::Deleted || found.view.run.status == RunStatus::Deleted;
    if deleted { Err(ApiError::not_found()) } else { Ok(()) }
}

/// An export that can be seen, with its record.
pub(super) async fn export_of(state: &ApiState, run: RunId, id: ExportId) -> Result<(Record, Export)> {
    let record = state.store().record(&Export::key(run, id)).await?.ok_or_else(ApiError::not_found)?;
    let export: Export = record.parse().map_err(unreadable)?;
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
        let parsed = record.parse().map_err(|e| Error::Corrupt(e.to_string()));
        exports.extend(readable("export", || record.key.id.clone(), parsed)?);
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
    let export::State::Completed { object, .. } = &export.state else { return Ok(None) };
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

/// What whoever downloads it is to call it.
pub(super) fn file_name(export: &Export) -> String {
    format!("results-{}.{}", export.run, export.format.as_str())
}

pub(super) fn corrupt(export: ExportId) -> ApiError {
    Error::Corrupt(format!("export {export}: its object key is not one")).into()
}

fn unreadable(error: Unreadable) -> ApiError {
    Error::Corrupt(error.to_string()).into()
}
