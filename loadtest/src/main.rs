//! Tools to measure and torment a running Conveyor: a gateway and a proxy that behave as told, a drain and an ingest
//! that are timed, experiments on who may start what when, what a job costs on AWS, and what others do with the same rows.
//!
//! They speak HTTP to it and nothing else. This crate must not know any other of the workspace, so that what it
//! measures is what users get; only the one that starts AWS-compatible servers, which
//! knows nothing of Conveyor either, and the one that HTTP clients begin with.

mod bill;
mod client;
mod deployment;
mod dispatch;
mod drain;
mod floors;
mod gateway;
mod history;
mod hostile;
mod ingest;
mod latency;
mod list;
mod process;
mod proxy;
mod round;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(
    name = "loadtest",
    version,
    about = "A scripted gateway, a faulty proxy, and runs that are timed or priced, for tests and benchmarks of Conveyor"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Gateway(gateway::Settings),
    Proxy(proxy::Settings),
    Drain(drain::Settings),
    Ingest(ingest::Settings),
    Bill(bill::Settings),
    Gate(dispatch::gate::Settings),
    Cap(dispatch::cap::Settings),
    Rate(dispatch::rate::Settings),
    Fair(dispatch::fair::Settings),
    Domains(dispatch::domains::Settings),
    Throttle(dispatch::throttle::Settings),
    Hostile(hostile::Settings),
    Floors(floors::Settings),
}

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Gateway(settings) => gateway::run(settings).await,
        Command::Proxy(settings) => proxy::run(settings).await,
        Command::Drain(settings) => drain::run(settings).await,
        Command::Ingest(settings) => ingest::run(settings).await,
        Command::Bill(settings) => bill::run(settings).await,
        Command::Gate(settings) => dispatch::gate::run(settings).await,
        Command::Cap(settings) => dispatch::cap::run(settings).await,
        Command::Rate(settings) => dispatch::rate::run(settings).await,
        Command::Fair(settings) => dispatch::fair::run(settings).await,
        Command::Domains(settings) => dispatch::domains::run(settings).await,
        Command::Throttle(settings) => dispatch::throttle::run(settings).await,
        Command::Hostile(settings) => hostile::run(settings).await,
        Command::Floors(settings) => floors::run(settings).await,
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
