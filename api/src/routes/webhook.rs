//! Where a job's notifications go (SPEC 6.21).

use super::hmac;
use crate::auth::Caller;
use crate::body;
use crate::fields::Fields;
use crate::owned::OwnedJob;
use crate::problem::{ApiError, Code, Result};
use crate::query::NoQuery;
use crate::show;
use crate::state::{ApiState, Shared};
use crate::wire::submit::SubmitRequest;
use crate::wire::webhook::{FIELDS, TaskToken, parse_webhook};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use conveyor_domain::{Command, Job, Purpose, UrlFault, WebhookConfig};
use conveyor_wire as wire;

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
    let hook = parse(&state, &caller, &body, true).await?;
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
    let hook = parse(&state, &caller, &body, false).await?;
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

async fn parse(
    state: &ApiState,
    caller: &Caller,
    body: &body::Json,
    signature_needed: bool,
) -> Result<WebhookConfig> {
    let fields = body.parse(|bytes, warnings| Fields::parse(bytes, FIELDS, warnings))?;
    let hook = parse_webhook(&fields, signature_needed)?;
    check(state, caller, &hook, "url").await?;
    Ok(hook)
}

/// What a submit says about notifications: checked, and what is secret of it sealed.
pub(super) async fn admit(state: &ApiState, caller: &Caller, request: &mut SubmitRequest) -> Result<()> {
    if let Some(hook) = &request.spec.webhook {
        check(state, caller, hook, "webhook.url").await?;
    }
    let Some(TaskToken(token)) = request.task_token.take() else { return Ok(()) };
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
