//! Receivers of notifications (SPEC 6.21): how the API asks about them. Who reaches them is wired by the binary; this crate
//! opens no connection to anybody.

use async_trait::async_trait;
use conveyor_domain::{CallerId, TestSent, UrlFault, WebhookConfig};
use conveyor_store::Result;

#[async_trait]
pub trait Webhooks: Send + Sync {
    /// Whether notifications can be sent there, as of now.
    async fn check(&self, caller: CallerId, url: &str) -> std::result::Result<(), UrlFault>;

    /// Sends an event that did not happen, and waits for what comes of it.
    async fn send_test(&self, caller: CallerId, hook: &WebhookConfig) -> Result<TestSent>;

    /// Whether somebody answers the state machines that wait for runs.
    fn reaches_state_machines(&self) -> bool;
}
