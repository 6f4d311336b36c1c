//! The deliverer, wired.

use super::args::BackendKind;
use super::{Parts, aws};
use conveyor_notify::{Notifier, Receivers};
use std::sync::Arc;

/// What delivers, in whichever role needs it.
pub async fn open(parts: &Parts) -> anyhow::Result<Arc<Notifier>> {
    let args = &parts.args;
    let machines = match (args.place.backend, args.sfn) {
        (BackendKind::Embedded, false) => None,
        (BackendKind::Embedded, true) => Some(aws::machines_alone().await?),
        (BackendKind::Aws, _) => Some(aws::machines(&args.place.aws).await?),
    };
    Ok(Arc::new(Notifier {
        backend: parts.backend.clone(),
        secret: parts.secret.clone(),
        clock: parts.clock.clone(),
        entropy: parts.entropy.clone(),
        receivers: Receivers::new(args.allow_http_webhooks)?,
        machines,
    }))
}
