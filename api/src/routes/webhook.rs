//! Where a job's notifications go (SPEC 6.21).

use crate::auth::Caller;
use crate::body;
use crate::path::OwnedJob;
use crate::problem::{ApiError, Result};
use crate::query::NoQuery;
use crate::show;
use crate::state::Shared;
use crate::webhooks;
use crate::wire::read;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use conveyor_domain::{Command, Job, WebhookConfig};
use conveyor_wire::{self as wire, PutWebhook, WebhookBody};

pub(super) async fn show(OwnedJob { view, .. }: OwnedJob, _: NoQuery) -> Result<Json<wire::Webhook>> {
    shown(&view.job)
}

fn shown(job: &Job) -> Result<Json<wire::Webhook>> {
    job.spec.webhook.as_ref().map(|hook| Json(show::webhook(hook))).ok_or_else(ApiError::not_found)
}

/// Replaces it whole: with a default, a new URL would silently end the signing.
pub(super) async fn put(
    OwnedJob { state, caller, view }: OwnedJob,
    body: body::Json,
) -> Result<Json<wire::Webhook>> {
    let PutWebhook { url, signature } = body.parse(read)?;
    let hook = WebhookConfig::new(url, signature);
    webhooks::check(&state, caller.id, &hook, "url").await?;
    let view = state.store().apply(view.job.id, Command::Webhook(Some(hook)), state.now()).await?;
    shown(&view.job)
}

pub(super) async fn delete(OwnedJob { state, view, .. }: OwnedJob, _: NoQuery) -> Result<StatusCode> {
    state.store().apply(view.job.id, Command::Webhook(None), state.now()).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn test(
    caller: Caller,
    State(state): State<Shared>,
    body: body::Json,
) -> Result<Json<wire::TestSent>> {
    let WebhookBody { url, signature } = body.parse(read)?;
    let hook = WebhookConfig::new(url, signature.unwrap_or(false));
    webhooks::check(&state, caller.id, &hook, "url").await?;
    let sent = state.webhooks.send_test(caller.id, &hook).await?;
    let error = sent.answer.error();
    Ok(Json(wire::TestSent {
        delivered: error.is_none(),
        event_id: sent.event,
        status_code: sent.answer.status_code(),
        error,
        elapsed_ms: sent.elapsed_ms,
    }))
}
