//! Webhooks as callers set and see them.

use crate::fields::Fields;
use crate::problem::{ApiError, Result};
use conveyor_domain::{WebhookConfig, limits};
use std::fmt;

pub(crate) const FIELDS: &[&str] = &["url", "signature"];

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
