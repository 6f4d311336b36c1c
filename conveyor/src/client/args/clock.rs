//! Flags of `conveyor clock`.

use super::{Connection, OperatorArgs};
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct ClockArgs {
    #[command(subcommand)]
    pub command: ClockCommand,
}

#[derive(Debug, Subcommand)]
pub enum ClockCommand {
    /// Show the server's time, how far its machine's clock is off, and whether anything is removed because of its age
    Show(ClockServerArgs),
    /// Confirm that the server's time is right: what is past its time is removed from then on
    Confirm(ClockServerArgs),
}

impl ClockArgs {
    pub fn connection(&self) -> Connection<'_> {
        let (ClockCommand::Show(server) | ClockCommand::Confirm(server)) = &self.command;
        Connection::Operator { args: &server.operator, data_dir: &server.data_dir }
    }
}

#[derive(Debug, Args)]
pub struct ClockServerArgs {
    #[command(flatten)]
    operator: OperatorArgs,

    /// Where to look for an `operator-key` file when no key is given
    #[arg(long, value_name = "DIR", env = "CONVEYOR_DATA_DIR", default_value = "./conveyor-data")]
    data_dir: PathBuf,
}
