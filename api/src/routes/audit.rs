//! Everything that is stored of a run, counted (SPEC 6.14).

use super::run_of;
use crate::auth::Caller;
use crate::path::{Id, Path};
use crate::problem::{ApiError, Code, Result};
use crate::query::Query;
use crate::state::Shared;
use crate::wire::repair::AuditJson;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use conveyor_domain::{JobId, RunId, limits};
use conveyor_store::port::{RunKey, RunView};
use tokio::time::timeout;

pub(super) async fn show(
    caller: Caller,
    State(state): State<Shared>,
    Path((Id(job), Id(run))): Path<(Id<JobId>, Id<RunId>)>,
    query: Query,
) -> Result<Response> {
    query.none()?;
    run_of(&state, &caller, job, Some(run)).await?;
    let Ok(_turn) = timeout(limits::AUDIT_WAIT, state.audits.turn(caller.id)).await else {
        let detail = "Other audits are being made, perhaps one of yours: each reads every row of its run.";
        return Err(ApiError::new(Code::Unavailable, detail));
    };
    let audit = state.operations.audit(RunKey { job, run }).await?.ok_or_else(ApiError::not_found)?;
    let view = RunView { run: audit.run.clone(), stats: audit.stats };
    Ok(Json(AuditJson::new(&audit, &view)).into_response())
}
