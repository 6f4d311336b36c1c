//! Tools to measure and torment a running Conveyor: a gateway that behaves as told, and a drain that is timed.
//!
//! They speak HTTP and nothing else. This crate must not know any other of the workspace, so that what it measures is
//! what users get.

mod client;
mod drain;
mod gateway;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(
    name = "loadtest",
    version,
    about = "A scripted gateway and timed runs, for tests and benchmarks of Conveyor"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Gateway(gateway::Settings),
    Drain(drain::Settings),
}

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Gateway(settings) => gateway::run(settings).await,
        Command::Drain(settings) => drain::run(settings).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("loadtest: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
