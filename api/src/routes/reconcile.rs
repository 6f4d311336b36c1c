//! Everything looked at, and put right, at once (SPEC 6.17).

use crate::auth::Operator;
use crate::body::{self, JsonBody};
use crate::cursor::Cursors;
use crate::operations::Reconcile;
use crate::problem::Result;
use crate::query::Query;
use crate::show;
use crate::state::Shared;
use crate::warnings::{STRICT, Warnings};
use crate::wire::read;
use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use conveyor_domain::limits;
use conveyor_wire::ReconcileRequest;

pub(super) async fn reconcile(
    _: Operator,
    State(state): State<Shared>,
    query: Query,
    request: Request,
) -> Result<Response> {
    let warnings = Warnings::of(&request, &query.only(&[STRICT])?)?;
    let max = limits::SUBMIT_REST_MAX_BYTES.min(state.config.max_body_bytes);
    let JsonBody { bytes, room: _room } = body::read_json(request, max, &state.bodies).await?;
    let ReconcileRequest { job_id: job, dry_run, from } = read(&bytes, &warnings)?;
    let dry_run = dry_run.unwrap_or(false);
    // Sealed, so that what comes back is surely a place in this very reconciliation.
    let whole = job.map_or("all".to_owned(), |job| job.to_string());
    let cursors = Cursors::of_operator(&state, &format!("reconcile|{whole}|{dry_run}"));
    let from = cursors.open(from.as_deref())?;
    let reconciled = state.operations.reconcile(Reconcile { job, dry_run, from }).await?;
    let mut answer = show::reconciled(&reconciled);
    answer.next = answer.next.map(|next| cursors.seal(&next));
    Ok(Json(answer).into_response())
}
