//! Stands in for the AWS backend in a build without the feature `aws`: the flags are unknown, and whatever needs AWS fails
//! with the reason.

use anyhow::bail;
use clap::Args;
use conveyor_domain::Entropy;
use conveyor_notify::StateMachines;
use conveyor_store::Backend;
use conveyor_store::server_time::ServerTime;
use std::sync::Arc;

const ABSENT: &str =
    "this conveyor was built without AWS: build it with the default features, or with `--features aws`";

#[derive(Clone, Debug, Args)]
pub struct AwsArgs {}

pub async fn open(_: &AwsArgs, _: &Arc<Entropy>, _: Arc<ServerTime>) -> anyhow::Result<Backend> {
    bail!(ABSENT)
}

pub fn describe(_: &AwsArgs) -> anyhow::Result<String> {
    bail!(ABSENT)
}

pub async fn machines(_: &AwsArgs) -> anyhow::Result<Arc<dyn StateMachines>> {
    bail!(ABSENT)
}

pub async fn machines_alone() -> anyhow::Result<Arc<dyn StateMachines>> {
    bail!(ABSENT)
}
