//! Jobs and their runs: looked at, closed, deleted, steered.

use crate::auth::Caller;
use crate::cursor::Cursors;
use crate::path::{OwnedJob, OwnedRun, with_latest_kept};
use crate::problem::{ApiError, Result};
use crate::query::{NoQuery, Query};
use crate::show::{self, is_there};
use crate::state::Shared;
use crate::submit::forget;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{MethodRouter, post};
use conveyor_domain::{Command, JobStatus, limits};
use conveyor_store::port::{JobsQuery, RunsQuery};
use conveyor_wire::{Job, Jobs, Run, Runs};

pub(super) async fn list(caller: Caller, State(state): State<Shared>, query: Query) -> Result<Json<Jobs>> {
    let query = query.only(&["status", "type", "limit", "cursor"])?;
    let status = query.choice("status", &JobStatus::ALL.map(|status| (status.as_str(), status)))?;
    let scheduled = query.choice("type", &[("regular", false), ("scheduled", true)])?;
    let (status_text, type_text) = (query.get("status").unwrap_or(""), query.get("type").unwrap_or(""));
    let cursors = Cursors::new(&state, caller.id, &format!("jobs|status={status_text}|type={type_text}"));
    let asked = query.page(cursors, limits::PAGE_DEFAULT, limits::PAGE_MAX)?;
    let (before, limit, look) = (asked.after, asked.limit + 1, limits::LIST_LOOK_MAX);
    let query = JobsQuery { caller: caller.id, status, scheduled, before, limit, look };
    let mut page = state.list(caller.id, state.store().jobs(query)).await?;
    let next_cursor = asked.scanned(&mut page, |view| view.job.id);
    let now = state.now();
    let mut rows = Vec::with_capacity(page.rows.len());
    for view in page.rows {
        rows.push(with_latest_kept(&state, caller.id, view).await?);
    }
    let jobs = rows.iter().map(|view| show::job(view, now)).collect();
    Ok(Json(Jobs { jobs, next_cursor }))
}

pub(super) async fn show(OwnedJob { state, view, .. }: OwnedJob, _: NoQuery) -> Json<Job> {
    Json(show::job(&view, state.now()))
}

pub(super) async fn delete(owned: OwnedJob, _: NoQuery) -> Result<(StatusCode, Json<Job>)> {
    let view = owned.apply(Command::Delete).await?;
    forget(&owned.state, view.job.id).await;
    Ok((StatusCode::ACCEPTED, Json(show::job(&view, owned.state.now()))))
}

pub(super) async fn close(owned: OwnedJob, _: NoQuery) -> Result<Json<Job>> {
    let view = owned.apply(Command::Close).await?;
    Ok(Json(show::job(&view, owned.state.now())))
}

/// A command on the job's current run, answered by that run.
pub(super) fn on_run(command: Command) -> MethodRouter<Shared> {
    let handle = async move |owned: OwnedJob, _: NoQuery| -> Result<Json<Run>> {
        // Of a job that never fired it is known why there is nothing to steer.
        if owned.view.latest.as_ref().is_some_and(|latest| !is_there(&latest.run)) {
            return Err(ApiError::not_found());
        }
        let latest = owned.apply(command).await?.latest.ok_or_else(ApiError::not_found)?;
        Ok(Json(show::run(&latest)))
    };
    post(handle)
}

pub(super) async fn runs(OwnedJob { state, caller, view }: OwnedJob, query: Query) -> Result<Json<Runs>> {
    let job = view.job.id;
    let asked = query.page(Cursors::new(&state, caller.id, &format!("runs|{job}")))?;
    let look = limits::LIST_LOOK_MAX;
    let query = RunsQuery { job, before: asked.after, limit: asked.limit + 1, look };
    let mut page = state.list(caller.id, state.store().runs(query)).await?;
    let next_cursor = asked.scanned(&mut page, |view| view.run.id);
    Ok(Json(Runs { runs: page.rows.iter().map(show::run).collect(), next_cursor }))
}

pub(super) async fn run(found: OwnedRun, _: NoQuery) -> Json<Run> {
    Json(show::run(&found.view))
}

pub(super) async fn delete_run(found: OwnedRun, _: NoQuery) -> Result<(StatusCode, Json<Run>)> {
    let state = &found.state;
    let view = state.store().delete_run(found.key(), state.now()).await?;
    if view.run.sequence == 1 {
        forget(state, found.job.id).await;
    }
    Ok((StatusCode::ACCEPTED, Json(show::run(&view))))
}
