//! What happened to a job (SPEC 6.12): a page at a time, or as it happens.

use super::job_of;
use crate::auth::Caller;
use crate::cursor::Cursors;
use crate::event_stream;
use crate::path::{Id, Path};
use crate::problem::{ApiError, Result};
use crate::query::Query;
use crate::show;
use crate::state::{ApiState, Shared};
use axum::Json;
use axum::extract::State;
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, HeaderName};
use axum::response::{IntoResponse, Response};
use conveyor_domain::{JobId, RunId, limits};
use conveyor_wire::Events;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

pub(super) async fn list(
    caller: Caller,
    State(state): State<Shared>,
    Path(Id(job)): Path<Id<JobId>>,
    query: Query,
    headers: HeaderMap,
) -> Result<Response> {
    let view = job_of(&state, &caller, job).await?;
    let hidden = view.job.spec.template_id();
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    if accept.is_some_and(|text| text.contains(event_stream::CONTENT_TYPE)) {
        let after = last_seen(query, &headers)?;
        return event_stream::answer(state, caller.id, job, hidden, after);
    }
    page(&state, &caller, job, hidden, query).await
}

async fn page(
    state: &ApiState,
    caller: &Caller,
    job: JobId,
    hidden: Option<RunId>,
    query: Query,
) -> Result<Response> {
    let query = query.only(&["limit", "cursor"])?;
    let limit = query.limit(limits::EVENTS_PAGE_DEFAULT, limits::EVENTS_PAGE_MAX)?;
    let cursors = Cursors::new(state, caller.id, &format!("events|{job}"));
    let after = cursors.open(query.get("cursor"))?.unwrap_or(0);
    let mut entries = state.list(caller.id, state.store().events(job, after, limit + 1)).await?;
    let next_cursor = cursors.page(&mut entries, limit, |entry| entry.number);
    let events = entries.iter().map(|entry| show::event(entry, hidden)).collect();
    Ok(Json(Events { events, next_cursor }).into_response())
}

/// The last event that the caller has: a client that reconnects says so in a header, one that starts may say so in the URL.
fn last_seen(query: Query, headers: &HeaderMap) -> Result<u64> {
    let query = query.only(&["after"])?;
    let header = headers.get(LAST_EVENT_ID).map(|value| value.to_str().unwrap_or_default());
    let (name, text) = match (header, query.get("after")) {
        (Some(text), _) => ("Last-Event-ID", text),
        (None, Some(text)) => ("after", text),
        (None, None) => return Ok(0),
    };
    text.parse().map_err(|_| ApiError::invalid(format!("`{name}` must be the id of an event.")))
}
