use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Where the end of a run is sent.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"url": "https://hooks.example.com/conveyor", "signature": true}]))]
pub struct WebhookBody {
    /// An https URL with a public address.
    pub url: String,
    /// Whether notifications are signed with the caller's key. Left out: no.
    pub signature: Option<bool>,
}

/// A webhook, replaced whole. With a default for `signature`, a new URL would silently end the signing.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"url": "https://hooks.example.com/conveyor", "signature": true}]))]
pub struct PutWebhook {
    /// An https URL with a public address.
    pub url: String,
    /// Whether notifications are signed with the caller's key.
    pub signature: bool,
}
