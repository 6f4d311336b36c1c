//! Receivers of notifications (SPEC 6.21): how the API asks about them. Who reaches them is wired by the binary; this crate
//! opens no connection to anybody.

use crate::problem::{ApiError, Code, Result};
use crate::state::ApiState;
use async_trait::async_trait;
use conveyor_domain::delivery::signing_keys::signing_keys_key;
use conveyor_domain::job::record::Expected;
use conveyor_domain::{CallerId, SigningKeys, TestSent, UrlFault, WebhookConfig};
use conveyor_store::Error;

#[async_trait]
pub trait Webhooks: Send + Sync {
    /// Whether notifications can be sent there, as of now.
    async fn check(&self, caller: CallerId, url: &str) -> std::result::Result<(), UrlFault>;

    /// Sends an event that did not happen, and waits for what comes of it.
    async fn send_test(&self, caller: CallerId, hook: &WebhookConfig) -> conveyor_store::Result<TestSent>;

    /// Whether somebody answers the state machines that wait for runs.
    fn reaches_state_machines(&self) -> bool;
}

/// Whether a webhook can be used now. `name` is where its URL is in the request.
pub(crate) async fn check(
    state: &ApiState,
    caller: CallerId,
    hook: &WebhookConfig,
    name: &str,
) -> Result<()> {
    let refuse = |fault: UrlFault| {
        let code = match fault {
            UrlFault::Malformed => Code::InvalidArgument,
            UrlFault::NotHttps => Code::CallbackUrlMustBeHttps,
            UrlFault::Unresolvable => Code::CallbackUrlUnresolvable,
            UrlFault::AddressNotAllowed => Code::CallbackAddressNotAllowed,
        };
        ApiError::new(code, format!("`{name}`: {fault}."))
    };
    state.webhooks.check(caller, &hook.url).await.map_err(refuse)?;
    if hook.signature && signing_keys(state, caller).await?.0.active.is_none() {
        let detail =
            "There is no active signing key: make one with `POST /v1/hmac/keys/rotate` and `.../finalize`.";
        return Err(ApiError::new(Code::WebhookSigningRequiresActiveKey, detail));
    }
    Ok(())
}

/// The keys that a caller's notifications are signed with, and what a change of them is written over.
pub(crate) async fn signing_keys(state: &ApiState, caller: CallerId) -> Result<(SigningKeys, Expected)> {
    match state.store().record(&signing_keys_key(caller)).await? {
        None => Ok((SigningKeys::default(), Expected::Absent)),
        Some(record) => {
            let keys = record.parse().map_err(Error::from)?;
            Ok((keys, Expected::Version(record.version)))
        }
    }
}
