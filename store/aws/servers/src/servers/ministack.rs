use super::{Launch, Recipe, Service};
use crate::install::{Source, python};
use anyhow::Result;
use std::path::Path;
use std::process::Command;

pub const RECIPE: Recipe = Recipe {
    name: "ministack",
    version: "1.5.33",
    source: Source::Python {
        requirements: include_str!("../../requirements/ministack.txt"),
        at_least: (3, 10),
        then: None,
    },
    needs: || Ok(()),
    services: &[Service::DynamoDb, Service::Sqs, Service::S3],
    command,
};

fn command(installed: &Path, launch: &Launch) -> Result<Command> {
    let mut command = Command::new(python::interpreter(installed).with_file_name("ministack"));
    command.env("BIND_HOST", "127.0.0.1").env("GATEWAY_PORT", launch.port.to_string());
    command.env("LOG_LEVEL", "WARNING");
    Ok(command)
}
