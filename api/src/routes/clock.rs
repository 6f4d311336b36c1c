//! What time it is, and whether removals go by it (SPEC 6.26).

use crate::auth::Operator;
use crate::problem::Result;
use crate::query::Query;
use crate::show;
use crate::state::Shared;
use axum::Json;
use axum::extract::State;
use conveyor_store::clock_watch;
use conveyor_wire::Clock;

pub(super) async fn show(_: Operator, State(state): State<Shared>, query: Query) -> Result<Json<Clock>> {
    query.none()?;
    let watch = clock_watch::look(state.store()).await?;
    Ok(Json(show::clock(state.clock.as_ref(), watch.as_ref())))
}

/// Removals go by the time from now on. Safe to repeat.
pub(super) async fn confirm(_: Operator, State(state): State<Shared>, query: Query) -> Result<Json<Clock>> {
    query.none()?;
    let watch = clock_watch::confirm(state.store(), state.now()).await?;
    tracing::warn!(now = %watch.seen, "an operator confirmed the time");
    Ok(Json(show::clock(state.clock.as_ref(), Some(&watch))))
}
