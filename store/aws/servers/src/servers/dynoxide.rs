use super::{Launch, Recipe, Service};
use crate::install::Source;
use anyhow::{Result, ensure};
use std::path::Path;
use std::process::Command;

const PACKAGE: &str = "@dynoxide/linux-x64";
const VERSION: &str = "1.2.1";

pub const RECIPE: Recipe = Recipe {
    name: "dynoxide",
    version: VERSION,
    source: Source::Npm { package: PACKAGE, version: VERSION },
    needs,
    services: &[Service::DynamoDb],
    command,
};

fn needs() -> Result<()> {
    ensure!(
        cfg!(all(target_os = "linux", target_arch = "x86_64")),
        "dynoxide is published for Linux on x86-64 only; DynamoDB Local runs anywhere"
    );
    Ok(())
}

fn command(installed: &Path, launch: &Launch) -> Result<Command> {
    let mut command = Command::new(installed.join("node_modules").join(PACKAGE).join("dynoxide"));
    command.args(["--host", "127.0.0.1", "--port", &launch.port.to_string()]);
    if let Some(file) = &launch.db_path {
        command.arg("--db-path").arg(file);
    }
    Ok(command)
}
