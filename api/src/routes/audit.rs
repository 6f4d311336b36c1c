//! Everything that is stored of a run, counted, and its bodies, verified (SPEC 6.14).

use super::run_of;
use crate::auth::Caller;
use crate::cursor::Cursors;
use crate::path::{Id, Path};
use crate::problem::{ApiError, Code, Result};
use crate::query::Query;
use crate::show;
use crate::state::{ApiState, Shared};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use conveyor_domain::{JobId, RunId, limits};
use conveyor_store::port::{RunKey, RunView};
use conveyor_turns::Turn;
use tokio::time::timeout;

pub(super) async fn show(
    caller: Caller,
    State(state): State<Shared>,
    Path((Id(job), Id(run))): Path<(Id<JobId>, Id<RunId>)>,
    query: Query,
) -> Result<Response> {
    query.none()?;
    run_of(&state, &caller, job, Some(run)).await?;
    let _turn = turn(&state, &caller).await?;
    let audit = state.operations.audit(RunKey { job, run }).await?.ok_or_else(ApiError::not_found)?;
    let view = RunView { run: audit.run.clone(), stats: audit.stats };
    Ok(Json(show::audit(audit, &view)).into_response())
}

/// One page of bodies. Its cursor is that of a list of tasks.
pub(super) async fn bodies(
    caller: Caller,
    State(state): State<Shared>,
    Path((Id(job), Id(run))): Path<(Id<JobId>, Id<RunId>)>,
    query: Query,
) -> Result<Response> {
    let query = query.only(&["cursor"])?;
    let key = run_of(&state, &caller, job, Some(run)).await?.rows(&state).await?;
    let cursors = Cursors::new(&state, caller.id, &format!("bodies|{job}|{run}"));
    let after = cursors.open(query.get("cursor"))?;
    let _turn = turn(&state, &caller).await?;
    let audit = state.operations.audit_bodies(key, after).await?;
    let next_cursor = audit.next.map(|task| cursors.seal(&task));
    Ok(Json(show::bodies_audit(audit, next_cursor)).into_response())
}

async fn turn(state: &ApiState, caller: &Caller) -> Result<Turn> {
    timeout(limits::AUDIT_WAIT, state.audits.turn(caller.id)).await.map_err(|_| {
        if state.audits.has_turn(caller.id) {
            let detail = "An audit of the caller is under way; it reads a whole run, or bodies for seconds.";
            return ApiError::new(Code::TooManyAudits, detail);
        }
        let detail = "Audits of others are under way: each reads a whole run, or bodies for seconds.";
        ApiError::new(Code::Overloaded, detail)
    })
}
