use super::{job_of, run_of};
use crate::auth::Caller;
use crate::cursor::Cursors;
use crate::path::{Id, Path};
use crate::problem::Result;
use crate::query::Query;
use crate::show;
use crate::state::Shared;
use crate::submit::forget;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use conveyor_domain::{JobId, RunId, limits};
use conveyor_store::port::{RunKey, RunsQuery};
use conveyor_wire::Runs;

pub(super) async fn list(
    caller: Caller,
    State(state): State<Shared>,
    Path(Id(job)): Path<Id<JobId>>,
    query: Query,
) -> Result<Response> {
    job_of(&state, &caller, job).await?;
    let query = query.only(&["limit", "cursor"])?;
    let limit = query.limit(limits::PAGE_DEFAULT, limits::PAGE_MAX)?;
    let cursors = Cursors::new(&state, caller.id, &format!("runs|{job}"));
    let before = cursors.open(query.get("cursor"))?;
    let query = RunsQuery { job, before, limit: limit + 1, look: limits::LIST_LOOK_MAX };
    let mut page = state.list(caller.id, state.store().runs(query)).await?;
    let next_cursor = cursors.scanned(&mut page, limit, |view| view.run.id);
    Ok(Json(Runs { runs: page.rows.iter().map(show::run).collect(), next_cursor }).into_response())
}

pub(super) async fn show(
    caller: Caller,
    State(state): State<Shared>,
    Path((Id(job), Id(run))): Path<(Id<JobId>, Id<RunId>)>,
    query: Query,
) -> Result<Response> {
    query.none()?;
    let found = run_of(&state, &caller, job, Some(run)).await?;
    Ok(Json(show::run(&found.view)).into_response())
}

pub(super) async fn delete(
    caller: Caller,
    State(state): State<Shared>,
    Path((Id(job), Id(run))): Path<(Id<JobId>, Id<RunId>)>,
    query: Query,
) -> Result<Response> {
    query.none()?;
    run_of(&state, &caller, job, Some(run)).await?;
    let view = state.store().delete_run(RunKey { job, run }, state.now()).await?;
    if view.run.sequence == 1 {
        forget(&state, job).await;
    }
    Ok((StatusCode::ACCEPTED, Json(show::run(&view))).into_response())
}
