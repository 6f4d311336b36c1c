//! The servers by hand, for trying things out.

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use conveyor_aws_servers::{Combination, Installation, Kind, Running, default_pair};
use std::io::{self, Write};
use std::path::PathBuf;
use std::thread;

#[derive(Parser)]
#[command(name = "aws-servers", about = "AWS-compatible servers on this machine, for tests")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install every server that is missing
    Install,
    /// Start servers, print the variables that point an AWS SDK at them, and run until ended
    Run {
        /// default (dynoxide and localstack), ministack, or dynamodb-local (with localstack); ministack takes the part
        /// of localstack where that cannot run
        #[arg(long, default_value_t = Combination::Default)]
        combination: Combination,
        /// Keep the tables of DynamoDB in this file (default combination only)
        #[arg(long, value_name = "FILE")]
        db_path: Option<PathBuf>,
        /// End when standard input ends, for programs that start this one
        #[arg(long)]
        until_stdin_closes: bool,
    },
}

fn main() -> Result<()> {
    let installation = Installation::find()?;
    match Cli::parse().command {
        Command::Install => install(&installation),
        Command::Run { combination, db_path, until_stdin_closes } => {
            if combination != Combination::MiniStack {
                say_note();
            }
            let running = match db_path {
                None => Running::start(&installation, combination)?,
                Some(file) => {
                    ensure!(
                        combination == Combination::Default,
                        "only dynoxide can keep its tables in a file"
                    );
                    Running::start_on(&installation, &file)?
                }
            };
            print(&running).context("cannot print the variables")?;
            wait(until_stdin_closes)
        }
    }
}

fn install(installation: &Installation) -> Result<()> {
    say_note();
    let installed = installation.install_all(&Kind::here());
    let failed: Vec<_> =
        installed.iter().filter(|one| one.folder.is_err()).map(|one| one.kind.name()).collect();
    ensure!(failed.is_empty(), "not installed: {}", failed.join(", "));
    Ok(())
}

fn say_note() {
    if let Some(note) = &default_pair().note {
        eprintln!("{note}");
    }
}

fn print(running: &Running) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for (name, value) in running.environment.variables() {
        writeln!(out, "export {name}={value}")?;
    }
    for server in &running.servers {
        writeln!(out, "export {}={}", server.kind().url_variable(), server.url())?;
    }
    out.flush()
}

fn wait(until_stdin_closes: bool) -> Result<()> {
    if until_stdin_closes {
        io::copy(&mut io::stdin(), &mut io::sink()).context("standard input")?;
        return Ok(());
    }
    eprintln!("running until Ctrl-C");
    // No signal needs handling: the servers end with this process, however it ends.
    loop {
        thread::park();
    }
}
