//! The ingest of a run: how far it is, and which rows it rejected (SPEC 6.11).

use crate::path::OwnedRun;
use crate::problem::{ApiError, Code, Result};
use crate::query::{NoQuery, Params, Query};
use crate::rejected_rows;
use crate::show;
use axum::Json;
use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_DISPOSITION, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use conveyor_domain::{IngestEvent, IngestState};
use conveyor_store::Error;
use conveyor_store::port::{BlobKey, Ingest, Reader, RunKey};
use conveyor_wire as wire;

pub(super) async fn show(found: OwnedRun, _: NoQuery) -> Result<Json<wire::Ingest>> {
    let ingest = ingest_of(&found).await?;
    let folded = IngestState::fold(&ingest.log).map_err(Error::from)?;
    Ok(Json(show::ingest(found.view.run.id, &folded, &ingest.log, found.job.spec.template_id())))
}

#[derive(Clone, Copy, Debug)]
enum Format {
    JsonLines,
    Csv,
}

pub(super) async fn rejected(found: OwnedRun, query: Query, headers: HeaderMap) -> Result<Response> {
    let format = format_of(&query.only(&["format"])?, &headers)?;
    let RunKey { run, .. } = found.rows().await?;
    let ingest = ingest_of(&found).await?;
    let reports = rejected_rows::read(found.state.backend.blobs.clone(), reports_of(&ingest)?);
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

async fn ingest_of(run: &OwnedRun) -> Result<Ingest> {
    let found = run.state.list(run.caller.id, run.state.store().ingest(run.key(), Reader::Caller)).await?;
    let none = || ApiError::new(Code::NotFound, "The tasks of this run did not come from a staged list.");
    found.ok_or_else(none)
}

/// The objects in which rejected rows are reported, in the order of the list.
fn reports_of(ingest: &Ingest) -> Result<Vec<BlobKey>> {
    let report = |event: &IngestEvent| {
        if let IngestEvent::ChunkCommitted { report, .. } | IngestEvent::Failed { report, .. } = event {
            return report.clone();
        }
        None
    };
    let keys = ingest.log.iter().filter_map(|logged| report(&logged.event));
    let parsed = keys.map(|key| key.parse());
    let parsed: std::result::Result<_, _> = parsed.collect();
    Ok(parsed.map_err(|_| Error::Corrupt("the key of a report is not one".to_owned()))?)
}
