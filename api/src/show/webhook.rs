//! Webhooks and the keys that sign them. A secret is in one answer, once.

use super::Time;
use conveyor_domain::{SigningKey, SigningKeys, TestSent, WebhookConfig};
use conveyor_wire as wire;

pub(crate) fn webhook(hook: &WebhookConfig) -> wire::Webhook {
    let disabled = hook.disabled.as_ref();
    let disabled = disabled.map(|off| wire::Disabled { at: Time(off.at), reason: off.reason.clone() });
    wire::Webhook { url: hook.url.clone(), signature: hook.signature, disabled }
}

pub(crate) fn test_sent(sent: &TestSent) -> wire::TestSent {
    let error = sent.answer.error();
    wire::TestSent {
        delivered: error.is_none(),
        event_id: sent.event,
        status_code: sent.answer.status_code(),
        error,
        elapsed_ms: sent.elapsed_ms,
    }
}

pub(crate) fn hmac_keys(SigningKeys { active, candidate }: &SigningKeys) -> wire::HmacKeys {
    let key = |key: &SigningKey| wire::HmacKey { kid: key.kid, created_at: Time(key.created) };
    wire::HmacKeys { active: active.as_ref().map(key), candidate: candidate.as_ref().map(key) }
}
