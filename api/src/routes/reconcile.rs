//! Everything looked at, and put right, at once (SPEC 6.17).

use crate::auth::Operator;
use crate::body;
use crate::cursor::Cursors;
use crate::operations::Reconcile;
use crate::problem::Result;
use crate::show;
use crate::state::Shared;
use crate::wire::read;
use axum::Json;
use axum::extract::State;
use conveyor_wire::{ReconcileRequest, Reconciled};

pub(super) async fn reconcile(
    _: Operator,
    State(state): State<Shared>,
    body: body::Json,
) -> Result<Json<Reconciled>> {
    let ReconcileRequest { job_id: job, dry_run, from } = body.parse(read)?;
    let dry_run = dry_run.unwrap_or(false);
    // Sealed, so that what comes back is surely a place in this very reconciliation.
    let whole = job.map_or("all".to_owned(), |job| job.to_string());
    let cursors = Cursors::of_operator(&state, &format!("reconcile|{whole}|{dry_run}"));
    let from = cursors.open(from.as_deref())?;
    let reconciled = state.operations.reconcile(Reconcile { job, dry_run, from }).await?;
    let mut answer = show::reconciled(&reconciled);
    answer.next = answer.next.map(|next| cursors.seal(&next));
    Ok(Json(answer))
}
