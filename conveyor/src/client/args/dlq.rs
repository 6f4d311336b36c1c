//! Flags of `conveyor dlq`.

use super::submit::parse_rate;
use super::{Connection, OperatorArgs};
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct DlqArgs {
    #[command(subcommand)]
    pub command: DlqCommand,
}

#[derive(Debug, Subcommand)]
pub enum DlqCommand {
    /// List messages that were given up, with what was said about them last
    List(DlqListArgs),
    /// Show one of them
    Show(DlqShowArgs),
    /// Send them again: everything about them counts anew
    Redrive(DlqRedriveArgs),
    /// Let them go: a run that still waits for one fails
    Purge(DlqPurgeArgs),
}

impl DlqArgs {
    pub fn connection(&self) -> Connection<'_> {
        let server = match &self.command {
            DlqCommand::List(args) => &args.server,
            DlqCommand::Show(args) => &args.server,
            DlqCommand::Redrive(args) => &args.server,
            DlqCommand::Purge(args) => &args.server,
        };
        Connection::Operator { args: &server.operator, data_dir: &server.data_dir }
    }
}

#[derive(Debug, Args)]
pub struct DlqServerArgs {
    #[command(flatten)]
    operator: OperatorArgs,

    /// Where to look for an `operator-key` file when no key is given
    #[arg(long, value_name = "DIR", env = "CONVEYOR_DATA_DIR", default_value = "./conveyor-data")]
    data_dir: PathBuf,
}

#[derive(Debug, Args)]
pub struct DlqListArgs {
    /// Only those of this job
    #[arg(long, env = "CONVEYOR_JOB", value_name = "JOB")]
    pub job: Option<String>,

    /// Only those of this run
    #[arg(long, env = "CONVEYOR_RUN", value_name = "RUN")]
    pub run: Option<String>,

    /// Only those whose last error has this in it
    #[arg(long, env = "CONVEYOR_ERROR", value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub error: Option<String>,

    #[command(flatten)]
    server: DlqServerArgs,
}

#[derive(Debug, Args)]
pub struct DlqShowArgs {
    /// The id of the letter
    #[arg(value_name = "ID")]
    pub letter: String,

    #[command(flatten)]
    server: DlqServerArgs,
}

// What is sent again or let go has no variables: one that is meant for something else must not decide about it.
/// Which letters.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub struct Selection {
    /// Letters by their ids
    #[arg(value_name = "ID", conflicts_with_all = ["all", "job", "run", "error"])]
    pub ids: Vec<String>,

    /// All that there are
    #[arg(long, conflicts_with_all = ["job", "run", "error"])]
    pub all: bool,

    /// Those of this job
    #[arg(long, value_name = "JOB")]
    pub job: Option<String>,

    /// Those of this run
    #[arg(long, value_name = "RUN")]
    pub run: Option<String>,

    /// Those whose last error has this in it
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub error: Option<String>,
}

#[derive(Debug, Args)]
pub struct DlqRedriveArgs {
    #[command(flatten)]
    pub selection: Selection,

    /// How many in a second, at most: `5`, `0.2`
    #[arg(long, value_name = "N", value_parser = parse_rate)]
    pub rate: Option<f64>,

    #[command(flatten)]
    server: DlqServerArgs,
}

#[derive(Debug, Args)]
pub struct DlqPurgeArgs {
    #[command(flatten)]
    pub selection: Selection,

    #[command(flatten)]
    server: DlqServerArgs,
}
