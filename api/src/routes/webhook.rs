//! Where a job's notifications go (SPEC 6.21).

use super::{hmac, job_of};
use crate::auth::Caller;
use crate::body::{self, JsonBody};
use crate::path::{Id, Path};
use crate::problem::{ApiError, Code, Result};
use crate::query::Query;
use crate::show;
use crate::state::{ApiState, Shared};
use crate::warnings::{STRICT, Warnings};
use crate::wire::read as read_body;
use crate::wire::submit::SubmitRequest;
use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use conveyor_domain::{Command, JobId, Purpose, UrlFault, WebhookConfig, limits};
use conveyor_wire::{PutWebhook, TaskToken, Text, WebhookBody};

pub(super) async fn show(
    caller: Caller,
    State(state): State<Shared>,
    Path(Id(job)): Path<Id<JobId>>,
    query: Query,
) -> Result<Response> {
    query.none()?;
    let view = job_of(&state, &caller, job).await?;
    let hook = view.job.spec.webhook.as_ref().ok_or_else(ApiError::not_found)?;
    Ok(Json(show::webhook(hook)).into_response())
}

/// Replaces it whole: with a default, a new URL would silently end the signing.
pub(super) async fn put(
    caller: Caller,
    State(state): State<Shared>,
    Path(Id(job)): Path<Id<JobId>>,
    query: Query,
    request: Request,
) -> Result<Response> {
    // Before anything about the body: another caller's job must not show by how far the check of a body gets.
    job_of(&state, &caller, job).await?;
    let warnings = Warnings::of(&request, &query.only(&[STRICT])?)?;
    let hook = read(&state, &caller, request, &warnings, true).await?;
    let view = state.store().apply(job, Command::Webhook(Some(hook)), state.now()).await?;
    let hook = view.job.spec.webhook.as_ref().ok_or_else(ApiError::not_found)?;
    Ok(Json(show::webhook(hook)).into_response())
}

pub(super) async fn delete(
    caller: Caller,
    State(state): State<Shared>,
    Path(Id(job)): Path<Id<JobId>>,
    query: Query,
) -> Result<Response> {
    query.none()?;
    job_of(&state, &caller, job).await?;
    state.store().apply(job, Command::Webhook(None), state.now()).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn test(
    caller: Caller,
    State(state): State<Shared>,
    query: Query,
    request: Request,
) -> Result<Response> {
    let warnings = Warnings::of(&request, &query.only(&[STRICT])?)?;
    let hook = read(&state, &caller, request, &warnings, false).await?;
    let sent = state.webhooks.send_test(caller.id, &hook).await?;
    Ok(Json(show::test_sent(&sent)).into_response())
}

async fn read(
    state: &ApiState,
    caller: &Caller,
    request: Request,
    warnings: &Warnings,
    signature_needed: bool,
) -> Result<WebhookConfig> {
    let max = limits::SUBMIT_REST_MAX_BYTES.min(state.config.max_body_bytes);
    let JsonBody { bytes, room: _room } = body::read_json(request, max, &state.bodies).await?;
    let hook = match signature_needed {
        true => read_body(&bytes, warnings).map(|PutWebhook { url, signature }| (url, signature))?,
        false => read_body(&bytes, warnings)
            .map(|WebhookBody { url, signature }| (url, signature == Some(true)))?,
    };
    let hook = WebhookConfig::new(hook.0, hook.1);
    check(state, caller, &hook, "url").await?;
    Ok(hook)
}

/// What a submit says about notifications: checked, and what is secret of it sealed.
pub(super) async fn admit(state: &ApiState, caller: &Caller, request: &mut SubmitRequest) -> Result<()> {
    if let Some(hook) = &request.spec.webhook {
        check(state, caller, hook, "webhook.url").await?;
    }
    let Some(TaskToken(Text(token))) = request.task_token.take() else { return Ok(()) };
    if !state.webhooks.reaches_state_machines() {
        let detail = "`sfn_task_token`: this deployment does not answer state machines.";
        return Err(ApiError::invalid(detail));
    }
    if request.schedule.is_some() {
        // Nobody knows whether it ever fires: the machine could hang.
        let detail = "`sfn_task_token`: a scheduled job has no run yet that could answer it.";
        return Err(ApiError::invalid(detail));
    }
    let sealed =
        state.secret.seal(Purpose::TaskToken, &caller.id.to_string(), token.as_bytes(), &state.entropy);
    request.spec.sfn_task_token = Some(sealed);
    Ok(())
}

/// Whether a webhook can be used now. `name` is where its URL is in the request.
async fn check(state: &ApiState, caller: &Caller, hook: &WebhookConfig, name: &str) -> Result<()> {
    let refuse = |fault: UrlFault| {
        let code = match fault {
            UrlFault::Malformed => Code::InvalidArgument,
            UrlFault::NotHttps => Code::CallbackUrlMustBeHttps,
            UrlFault::Unresolvable => Code::CallbackUrlUnresolvable,
            UrlFault::AddressNotAllowed => Code::CallbackAddressNotAllowed,
        };
        ApiError::new(code, format!("`{name}`: {fault}."))
    };
    state.webhooks.check(caller.id, &hook.url).await.map_err(refuse)?;
    if hook.signature && hmac::keys_of(state, caller).await?.active.is_none() {
        let detail =
            "There is no active signing key: make one with `POST /v1/hmac/keys/rotate` and `.../finalize`.";
        return Err(ApiError::new(Code::WebhookSigningRequiresActiveKey, detail));
    }
    Ok(())
}
