//! What the API asks of the deliverer: neither knows the other.

use async_trait::async_trait;
use conveyor_api::Webhooks;
use conveyor_domain::{CallerId, TestSent, UrlFault, WebhookConfig};
use conveyor_notify::Notifier;
use conveyor_store::Result;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Reached(pub Arc<Notifier>);

#[async_trait]
impl Webhooks for Reached {
    async fn check(&self, caller: CallerId, url: &str) -> std::result::Result<(), UrlFault> {
        self.0.receivers.check(caller, url).await
    }

    async fn send_test(&self, caller: CallerId, hook: &WebhookConfig) -> Result<TestSent> {
        self.0.send_test(caller, hook).await
    }

    fn reaches_state_machines(&self) -> bool {
        self.0.machines.is_some()
    }
}
