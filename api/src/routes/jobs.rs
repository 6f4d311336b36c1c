use super::{applied, job_of, with_latest_kept};
use crate::auth::Caller;
use crate::cursor::Cursors;
use crate::path::{Id, Path};
use crate::problem::{ApiError, Result};
use crate::query::Query;
use crate::show::{self, is_there};
use crate::state::Shared;
use crate::submit::forget;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, post};
use conveyor_domain::{Command, JobId, JobStatus, limits};
use conveyor_store::port::{JobView, JobsQuery};
use conveyor_wire::Jobs;

pub(super) async fn list(caller: Caller, State(state): State<Shared>, query: Query) -> Result<Response> {
    let query = query.only(&["status", "type", "limit", "cursor"])?;
    let status = query.choice("status", &JobStatus::ALL.map(|status| (status.as_str(), status)))?;
    let scheduled = query.choice("type", &[("regular", false), ("scheduled", true)])?;
    let limit = query.limit(limits::PAGE_DEFAULT, limits::PAGE_MAX)?;
    let (status_text, type_text) = (query.get("status").unwrap_or(""), query.get("type").unwrap_or(""));
    let cursors = Cursors::new(&state, caller.id, &format!("jobs|status={status_text}|type={type_text}"));
    let before = cursors.open(query.get("cursor"))?;
    let look = limits::LIST_LOOK_MAX;
    let query = JobsQuery { caller: caller.id, status, scheduled, before, limit: limit + 1, look };
    let mut page = state.list(caller.id, state.store().jobs(query)).await?;
    let next_cursor = cursors.scanned(&mut page, limit, |view| view.job.id);
    let now = state.now();
    let mut rows = Vec::with_capacity(page.rows.len());
    for view in page.rows {
        rows.push(with_latest_kept(&state, caller.id, view).await?);
    }
    let jobs = rows.iter().map(|view| show::job(view, now)).collect();
    Ok(Json(Jobs { jobs, next_cursor }).into_response())
}

pub(super) async fn show(
    caller: Caller,
    State(state): State<Shared>,
    Path(Id(job)): Path<Id<JobId>>,
    query: Query,
) -> Result<Response> {
    query.none()?;
    let view = job_of(&state, &caller, job).await?;
    Ok(Json(show::job(&view, state.now())).into_response())
}

pub(super) async fn delete(
    caller: Caller,
    State(state): State<Shared>,
    Path(Id(job)): Path<Id<JobId>>,
    query: Query,
) -> Result<Response> {
    query.none()?;
    let view = apply(&state, &caller, job, Command::Delete).await?;
    forget(&state, job).await;
    Ok((StatusCode::ACCEPTED, Json(show::job(&view, state.now()))).into_response())
}

pub(super) async fn close(
    caller: Caller,
    State(state): State<Shared>,
    Path(Id(job)): Path<Id<JobId>>,
    query: Query,
) -> Result<Response> {
    query.none()?;
    let view = apply(&state, &caller, job, Command::Close).await?;
    Ok(Json(show::job(&view, state.now())).into_response())
}

/// A command on the job's current run, answered by that run.
pub(super) fn on_run(command: Command) -> MethodRouter<Shared> {
    let handle = async move |caller: Caller,
                             State(state): State<Shared>,
                             Path(Id(job)): Path<Id<JobId>>,
                             query: Query|
                -> Result<Response> {
        query.none()?;
        let found = job_of(&state, &caller, job).await?;
        // Of a job that never fired it is known why there is nothing to steer.
        if found.latest.is_some_and(|latest| !is_there(&latest.run)) {
            return Err(ApiError::not_found());
        }
        let view = applied(&state, caller.id, job, command).await?;
        Ok(Json(view.latest.as_ref().map(show::run)).into_response())
    };
    post(handle)
}

/// Applies a command to a job of this caller.
async fn apply(state: &Shared, caller: &Caller, job: JobId, command: Command) -> Result<JobView> {
    job_of(state, caller, job).await?;
    applied(state, caller.id, job, command).await
}
