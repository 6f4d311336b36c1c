//! `conveyor provision`: the table, queues and bucket of the AWS backend. Safe to repeat.

use crate::server::AwsArgs;
use anyhow::Context;
use clap::Args;
use comfy_table::{Table, presets};
use serde_json::json;
use std::process::ExitCode;

#[derive(Clone, Debug, Args)]
pub struct ProvisionArgs {
    #[command(flatten)]
    pub aws: AwsArgs,

    /// Print one JSON document
    #[arg(long, env = "CONVEYOR_JSON")]
    pub json: bool,
}

pub async fn run(args: ProvisionArgs) -> anyhow::Result<ExitCode> {
    let settings = args.aws.settings()?;
    let made = conveyor_aws::provision(&settings).await.context("cannot provision")?;
    let resources = [
        ("table", settings.table.clone(), made.table),
        ("queue", format!("{}-control", settings.queue_prefix), made.queues),
        ("queue", format!("{}-control-dead", settings.queue_prefix), made.queues),
        ("bucket", settings.bucket.clone(), made.bucket),
    ];
    if args.json {
        let resources: Vec<_> = resources
            .iter()
            .map(|(kind, name, created)| json!({"kind": kind, "name": name, "created": created}))
            .collect();
        println!("{}", json!({ "resources": resources }));
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["kind", "name", ""]);
    for (kind, name, created) in resources {
        table.add_row([kind, &name, if created { "created" } else { "was there" }]);
    }
    println!("{table}");
    Ok(ExitCode::SUCCESS)
}
