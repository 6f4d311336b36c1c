//! Webhooks as callers set and see them.

use super::Time;
use crate::fields::Fields;
use crate::problem::{ApiError, Result};
use conveyor_domain::{EventId, TestSent, WebhookConfig, limits};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

pub(crate) const FIELDS: &[&str] = &["url", "signature"];

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WebhookJson<'a> {
    url: &'a str,
    signature: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    disabled: Option<DisabledJson<'a>>,
}

/// Nothing is sent any more, until it is set anew.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DisabledJson<'a> {
    at: Time,
    reason: &'a str,
}

impl<'a> From<&'a WebhookConfig> for WebhookJson<'a> {
    fn from(hook: &'a WebhookConfig) -> WebhookJson<'a> {
        let disabled = hook
            .disabled
            .as_ref()
            .map(|disabled| DisabledJson { at: Time(disabled.at), reason: &disabled.reason });
        WebhookJson { url: &hook.url, signature: hook.signature, disabled }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TestSentJson {
    delivered: bool,
    event_id: EventId,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_code: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    elapsed_ms: u64,
}

impl From<&TestSent> for TestSentJson {
    fn from(sent: &TestSent) -> TestSentJson {
        let error = sent.answer.error();
        TestSentJson {
            delivered: error.is_none(),
            event_id: sent.event,
            status_code: sent.answer.status_code(),
            error,
            elapsed_ms: sent.elapsed_ms,
        }
    }
}

/// Where the fields of a webhook say what it is. `signature` may be left out where nothing is replaced by it.
pub(crate) fn parse_webhook(fields: &Fields<'_>, signature_needed: bool) -> Result<WebhookConfig> {
    let missing = |name: &str| ApiError::invalid(format!("`{}` is missing.", fields.path(name)));
    let url = fields.get::<String>("url", "a string")?.ok_or_else(|| missing("url"))?;
    let signature = fields.get::<bool>("signature", "true or false")?;
    if signature_needed && signature.is_none() {
        return Err(missing("signature"));
    }
    Ok(WebhookConfig::new(url, signature.unwrap_or(false)))
}

/// What a state machine waits with. Prints nothing of itself.
pub(crate) struct TaskToken(pub String);

impl fmt::Debug for TaskToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TaskToken")
    }
}

pub(crate) fn parse_task_token(fields: &Fields<'_>) -> Result<Option<TaskToken>> {
    let most = limits::SFN_TASK_TOKEN_MAX_CHARS;
    let token = fields.get::<String>("sfn_task_token", "a string")?;
    match token.as_ref().map(|token| token.chars().count()) {
        Some(n) if n == 0 || n > most => {
            Err(ApiError::invalid(format!("`sfn_task_token` must have 1 to {most} characters.")))
        }
        Some(_) | None => Ok(token.map(TaskToken)),
    }
}
