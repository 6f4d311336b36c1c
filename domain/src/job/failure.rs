//! Why a task or a run failed, in the few words that callers can count on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

crate::words! {
    /// The public taxonomy of task failures; the only keys of `stats.failure_reasons`.
    #[derive(PartialOrd, Ord, Hash, JsonSchema)]
    pub enum FailureClass as json {
        AuthFailed = "auth_failed",
        Blocked = "blocked",
        BadTarget = "bad_target",
        RateLimited = "rate_limited",
        Timeout = "timeout",
        GatewayError = "gateway_error",
        Other = "other",
    }
}

crate::words! {
    /// Why a whole run failed: the account that the gateway bills, not any one task.
    #[derive(JsonSchema)]
    pub enum AccountFault as json {
        InsufficientCredits = "insufficient_credits",
        SubscriptionInactive = "subscription_inactive",
        ApiKeyCapReached = "api_key_cap_reached",
    }
}

/// What went wrong, as RFC 7807 has it: the body of an error answer, and the error of a failed task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// `urn:conveyor:error:` and the code.
    #[serde(rename = "type")]
    #[schemars(extend("examples" = ["urn:conveyor:error:not_found"]))]
    pub kind: String,
    /// The code, for people.
    #[schemars(extend("examples" = ["Not found"]))]
    pub title: String,
    /// The status of the answer; of a failed task, that of the target or the gateway.
    pub status: u16,
    /// A stable word for programs.
    #[schemars(extend("examples" = ["not_found"]))]
    pub code: String,
    /// A sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["There is no such resource."]))]
    pub detail: Option<String>,
    /// The request id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["01KCX5T0Q8H2V4M6N8P0R2S4T6"]))]
    pub instance: Option<String>,
    /// Members beyond the standard ones, such as `invalid_tasks`.
    #[serde(flatten)]
    pub extra: BTreeMap<String, serde_json::Value>,
}

impl Problem {
    pub fn new(status: u16, code: impl Into<String>, title: impl Into<String>) -> Problem {
        let code = code.into();
        Problem {
            kind: format!("urn:conveyor:error:{code}"),
            title: title.into(),
            status,
            code,
            detail: None,
            instance: None,
            extra: BTreeMap::new(),
        }
    }

    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Problem {
        self.detail = Some(detail.into());
        self
    }
}

/// The first `max` characters of a text, never half of one.
pub fn cut(text: &str, max: usize) -> &str {
    match text.char_indices().nth(max) {
        Some((at, _)) => &text[..at],
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_respects_characters() {
        assert_eq!(cut("añb", 2), "añ");
        assert_eq!(cut("añb", 9), "añb");
    }
}
