//! The ingest of a run: how far it is, and which rows it rejected (SPEC 6.11).

use super::{FoundRun, run_of};
use crate::auth::Caller;
use crate::path::{Id, Path};
use crate::problem::{ApiError, Code, Result};
use crate::query::{Params, Query};
use crate::rejected_rows;
use crate::show;
use crate::state::{ApiState, Shared};
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_DISPOSITION, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use conveyor_domain::{IngestEvent, IngestState, JobId, RunId};
use conveyor_store::Error;
use conveyor_store::port::{BlobKey, Ingest, RunKey};

pub(super) async fn show(
    caller: Caller,
    State(state): State<Shared>,
    Path((Id(job), Id(run))): Path<(Id<JobId>, Id<RunId>)>,
    query: Query,
) -> Result<Response> {
    query.none()?;
    let found = run_of(&state, &caller, job, Some(run)).await?;
    let ingest = ingest_of(&state, &found).await?;
    let folded = IngestState::fold(&ingest.log).map_err(|e| Error::Corrupt(e.to_string()))?;
    Ok(Json(show::ingest(run, &folded, &ingest.log, found.job.spec.template_id())).into_response())
}

#[derive(Clone, Copy, Debug)]
enum Format {
    JsonLines,
    Csv,
}

pub(super) async fn rejected(
    caller: Caller,
    State(state): State<Shared>,
    Path((Id(job), Id(run))): Path<(Id<JobId>, Id<RunId>)>,
    query: Query,
    headers: HeaderMap,
) -> Result<Response> {
    let format = format_of(&query.only(&["format"])?, &headers)?;
    let found = run_of(&state, &caller, job, Some(run)).await?;
    found.rows(&state).await?;
    let ingest = ingest_of(&state, &found).await?;
    let reports = rejected_rows::read(state.backend.blobs.clone(), reports_of(&ingest)?);
    let (content_type, extension, body) = match format {
        Format::JsonLines => ("application/x-ndjson", "jsonl", Body::from_stream(reports)),
        Format::Csv => ("text/csv; charset=utf-8", "csv", Body::from_stream(rejected_rows::as_csv(reports))),
    };
    let headers = [
        (CONTENT_TYPE, content_type.to_owned()),
        (CONTENT_DISPOSITION, format!("attachment; filename=\"rejected-{run}.{extension}\"")),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    Ok((headers, body).into_response())
}

fn format_of(query: &Params, headers: &HeaderMap) -> Result<Format> {
    if let Some(format) = query.choice("format", &[("jsonl", Format::JsonLines), ("csv", Format::Csv)])? {
        return Ok(format);
    }
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let wants_csv = accept.is_some_and(|text| text.contains("text/csv"));
    Ok(if wants_csv { Format::Csv } else { Format::JsonLines })
}

async fn ingest_of(state: &ApiState, run: &FoundRun) -> Result<Ingest> {
    let key = RunKey { job: run.job.id, run: run.view.run.id };
    let found = state.list(run.job.caller, state.store().shown_ingest(key)).await?;
    let none = || ApiError::new(Code::NotFound, "The tasks of this run did not come from a staged list.");
    found.ok_or_else(none)
}

/// The objects in which rejected rows are reported, in the order of the list.
fn reports_of(ingest: &Ingest) -> Result<Vec<BlobKey>> {
    let report = |event: &IngestEvent| match event {
        IngestEvent::ChunkCommitted { report, .. } | IngestEvent::Failed { report, .. } => report.clone(),
        IngestEvent::Accepted { .. }
        | IngestEvent::Replaying { .. }
        | IngestEvent::SourcePinned { .. }
        | IngestEvent::Validated { .. }
        | IngestEvent::Counted { .. }
        | IngestEvent::TotalSet { .. }
        | IngestEvent::Latched
        | IngestEvent::Cut { .. }
        | IngestEvent::AttemptFailed { .. }
        | IngestEvent::Resent
        | IngestEvent::Redriven => None,
    };
    let keys = ingest.log.iter().filter_map(|logged| report(&logged.event));
    let parsed = keys.map(|key| key.parse());
    let parsed: std::result::Result<_, _> = parsed.collect();
    Ok(parsed.map_err(|_| Error::Corrupt("the key of a report is not one".to_owned()))?)
}
