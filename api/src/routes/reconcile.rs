//! Everything looked at, and put right, at once (SPEC 6.17).

use crate::auth::Operator;
use crate::body;
use crate::cursor::Cursors;
use crate::fields::Fields;
use crate::operations::Reconcile;
use crate::problem::{ApiError, Result};
use crate::show;
use crate::state::Shared;
use axum::Json;
use axum::extract::State;
use conveyor_domain::JobId;
use conveyor_wire::Reconciled;
use std::str::FromStr;

pub(crate) const FIELDS: &[&str] = &["job_id", "dry_run", "from"];

pub(super) async fn reconcile(
    _: Operator,
    State(state): State<Shared>,
    body: body::Json,
) -> Result<Json<Reconciled>> {
    let fields = body.parse(|bytes, warnings| Fields::parse(bytes, FIELDS, warnings))?;
    let job: Option<JobId> = id(&fields, "job_id")?;
    let dry_run = fields.get("dry_run", "true or false")?.unwrap_or(false);
    // Sealed, so that what comes back is surely a place in this very reconciliation.
    let whole = job.map_or("all".to_owned(), |job| job.to_string());
    let cursors = Cursors::of_operator(&state, &format!("reconcile|{whole}|{dry_run}"));
    let from = cursors.open(fields.get::<String>("from", "a string")?.as_deref())?;
    let reconciled = state.operations.reconcile(Reconcile { job, dry_run, from }).await?;
    let mut answer = show::reconciled(&reconciled);
    answer.next = answer.next.map(|next| cursors.seal(&next));
    Ok(Json(answer))
}

/// An id in a body.
pub(super) fn id<T: FromStr>(fields: &Fields<'_>, name: &str) -> Result<Option<T>> {
    let Some(text) = fields.get::<String>(name, "an id")? else { return Ok(None) };
    let not_one = |_| ApiError::invalid(format!("`{}` must be an id.", fields.path(name)));
    text.parse().map(Some).map_err(not_one)
}
