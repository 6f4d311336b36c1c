//! Flags of `conveyor keys`.

use super::{Connection, OperatorArgs};
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use conveyor_domain::limits;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

#[derive(Debug, Args)]
pub struct KeysArgs {
    #[command(subcommand)]
    pub command: KeysCommand,
}

#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Make an API key. It is shown once, and kept nowhere
    Create(KeysCreateArgs),
    /// List the keys that were made, with what their callers may have
    List(KeysListArgs),
    /// Revoke a key: it is refused from then on
    Revoke(KeysRevokeArgs),
    /// Show what a caller may have and has, or change what it may have
    Quotas(KeysQuotasArgs),
}

impl KeysArgs {
    pub fn connection(&self) -> Connection<'_> {
        let server = match &self.command {
            KeysCommand::Create(args) => &args.server,
            KeysCommand::List(args) => &args.server,
            KeysCommand::Revoke(args) => &args.server,
            KeysCommand::Quotas(args) => &args.server,
        };
        Connection::Operator { args: &server.operator, data_dir: &server.data_dir }
    }
}

#[derive(Debug, Args)]
pub struct KeysServerArgs {
    #[command(flatten)]
    operator: OperatorArgs,

    /// Where to look for an `operator-key` file when no key is given
    #[arg(long, value_name = "DIR", env = "CONVEYOR_DATA_DIR", default_value = "./conveyor-data")]
    data_dir: PathBuf,
}

// What somebody may have has no variables: one that is meant for something else must not decide about it.
#[derive(Debug, Args)]
pub struct KeysCreateArgs {
    /// What the key is for, for people
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub name: String,

    /// Whose key it is, by a caller's id; without it, a new caller's
    #[arg(long, value_name = "ID", conflicts_with = "operator")]
    pub caller: Option<String>,

    /// A key for `/v1/admin`, which is no caller's
    #[arg(long, conflicts_with_all = ["active_jobs", "scheduled_jobs", "queued_tasks"])]
    pub operator: bool,

    #[command(flatten)]
    pub quotas: QuotaArgs,

    #[command(flatten)]
    server: KeysServerArgs,
}

#[derive(Debug, Args)]
pub struct KeysListArgs {
    #[command(flatten)]
    server: KeysServerArgs,
}

#[derive(Debug, Args)]
pub struct KeysRevokeArgs {
    /// The id of the key, as `keys list` shows it
    #[arg(value_name = "ID")]
    pub key: String,

    #[command(flatten)]
    server: KeysServerArgs,
}

#[derive(Debug, Args)]
pub struct KeysQuotasArgs {
    /// The id of the caller
    pub caller: String,

    #[command(flatten)]
    pub quotas: QuotaArgs,

    #[command(flatten)]
    server: KeysServerArgs,
}

#[derive(Debug, Args)]
pub struct QuotaArgs {
    /// Jobs of the caller with a run that has not ended; `default` for what the server was started with
    #[arg(long, value_name = "N", value_parser = jobs)]
    pub active_jobs: Option<Choice<u32>>,

    /// Jobs of the caller that have a schedule
    #[arg(long, value_name = "N", value_parser = jobs)]
    pub scheduled_jobs: Option<Choice<u32>>,

    /// Tasks of the caller that are not done
    #[arg(long, value_name = "N", value_parser = tasks)]
    pub queued_tasks: Option<Choice<u64>>,
}

/// A quota, or none of the caller's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice<T> {
    Default,
    Limit(T),
}

impl<T> Choice<T> {
    pub fn quota(self) -> Option<T> {
        match self {
            Choice::Default => None,
            Choice::Limit(limit) => Some(limit),
        }
    }
}

fn jobs(text: &str) -> Result<Choice<u32>, String> {
    choice(text, limits::QUOTA_JOBS_MAX)
}

fn tasks(text: &str) -> Result<Choice<u64>, String> {
    choice(text, limits::QUOTA_TASKS_MAX)
}

fn choice<T: FromStr + PartialOrd + Display>(text: &str, max: T) -> Result<Choice<T>, String> {
    if text == "default" {
        return Ok(Choice::Default);
    }
    let limit = text.parse().ok().filter(|n| *n <= max);
    limit.map(Choice::Limit).ok_or_else(|| format!("not a number from 0 to {max}, nor `default`"))
}
