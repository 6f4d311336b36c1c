//! The AWS backend as the server sees it: its flags, how it is opened, and Step Functions. A build without the feature `aws`
//! has `absent.rs` in its place.

mod args;
mod machines;

pub use args::AwsArgs;

use anyhow::Context;
use conveyor_aws::{StepFunctions, Timeouts};
use conveyor_domain::Entropy;
use conveyor_notify::StateMachines;
use conveyor_store::Backend;
use machines::Machines;
use std::sync::Arc;

pub async fn open(args: &AwsArgs, entropy: &Arc<Entropy>) -> anyhow::Result<Backend> {
    Ok(conveyor_aws::open(&args.settings()?, entropy.clone()).await)
}

/// Where it is, for people.
pub fn describe(args: &AwsArgs) -> anyhow::Result<String> {
    let settings = args.settings().context("AWS")?;
    Ok(format!("table {}, queues {}-*, bucket {}", settings.table, settings.queue_prefix, settings.bucket))
}

/// Step Functions, for the AWS backend.
pub async fn machines(args: &AwsArgs) -> anyhow::Result<Arc<dyn StateMachines>> {
    let timeouts = args.settings()?.timeouts;
    Ok(Arc::new(Machines(StepFunctions::connect(timeouts).await)))
}

/// Step Functions, for a backend that has no settings of AWS.
pub async fn machines_alone() -> anyhow::Result<Arc<dyn StateMachines>> {
    Ok(Arc::new(Machines(StepFunctions::connect(Timeouts::default()).await)))
}
