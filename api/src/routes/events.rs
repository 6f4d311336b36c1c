//! What happened to a job (SPEC 6.12): a page at a time, or as it happens.

use crate::cursor::Cursors;
use crate::event_stream;
use crate::path::OwnedJob;
use crate::problem::{ApiError, Result};
use crate::query::Query;
use crate::show;
use axum::Json;
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, HeaderName};
use axum::response::{IntoResponse, Response};
use conveyor_domain::limits;
use conveyor_wire::Events;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

pub(super) async fn list(
    OwnedJob { state, caller, view }: OwnedJob,
    query: Query,
    headers: HeaderMap,
) -> Result<Response> {
    let (job, hidden) = (view.job.id, view.job.spec.template_id());
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    if accept.is_some_and(|text| text.contains(event_stream::CONTENT_TYPE)) {
        let after = last_seen(query, &headers)?;
        return event_stream::answer(state, caller.id, job, hidden, after);
    }
    let query = query.only(&["limit", "cursor"])?;
    let cursors = Cursors::new(&state, caller.id, &format!("events|{job}"));
    let asked = query.page(cursors, limits::EVENTS_PAGE_DEFAULT, limits::EVENTS_PAGE_MAX)?;
    let read = state.store().events(job, asked.after.unwrap_or(0), asked.limit + 1);
    let mut entries = state.list(caller.id, read).await?;
    let next_cursor = asked.page(&mut entries, |entry| entry.number);
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
