//! What a caller may have, and has (SPEC 6.24). Every id is a caller's: there is no list of callers, only of their keys.

use crate::admission;
use crate::auth::Operator;
use crate::body;
use crate::path::Id;
use crate::problem::Result;
use crate::query::NoQuery;
use crate::state::{ApiState, Shared};
use crate::wire::keys::parse_quotas;
use axum::Json;
use axum::extract::State;
use conveyor_domain::{CallerId, Holdings, Quotas, limits};
use conveyor_wire as wire;

pub(super) async fn show(
    _: Operator,
    State(state): State<Shared>,
    Id(caller): Id<CallerId>,
    _: NoQuery,
) -> Result<Json<wire::Caller>> {
    look(&state, caller).await
}

pub(super) async fn change(
    _: Operator,
    State(state): State<Shared>,
    Id(caller): Id<CallerId>,
    body: body::Json,
) -> Result<Json<wire::Caller>> {
    change_quotas(&state, caller, body.parse(parse_quotas)?).await?;
    look(&state, caller).await
}

async fn look(state: &ApiState, caller: CallerId) -> Result<Json<wire::Caller>> {
    let admission = state.admission();
    let (_, holdings) = admission.holdings(caller).await?;
    // As if everything was limited: so much is counted.
    let everything = Quotas {
        active_jobs: Some(limits::QUOTA_LIVE_JOBS_MAX),
        scheduled_jobs: Some(limits::QUOTA_JOBS_MAX),
        queued_tasks: Some(limits::QUOTA_TASKS_MAX),
    };
    let usage = admission.usage(caller, everything).await?;
    Ok(Json(wire::Caller {
        caller,
        quotas: holdings.chosen.or(state.config.quotas),
        usage: holdings.used(&usage, state.now()),
        more: usage.more,
    }))
}

/// What a caller may have.
pub(super) async fn quotas_of(state: &ApiState, caller: CallerId) -> Result<Quotas> {
    let (_, holdings) = state.admission().holdings(caller).await?;
    Ok(holdings.chosen.or(state.config.quotas))
}

pub(super) async fn change_quotas(
    state: &ApiState,
    caller: CallerId,
    change: wire::QuotasBody,
) -> Result<Quotas> {
    let apply =
        |holdings: &Holdings| Some(Holdings { chosen: change.over(holdings.chosen), ..holdings.clone() });
    let changed = state.admission().change(caller, apply).await?.ok_or_else(admission::busy)?;
    Ok(changed.chosen.or(state.config.quotas))
}
