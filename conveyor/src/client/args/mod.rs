//! Flags of the client commands.

mod clock;
mod connection;
mod dlq;
mod export;
mod keys;
mod limits;
mod repair;
mod rerun;
mod schedule;
mod submit;

pub use clock::{ClockArgs, ClockCommand};
pub use connection::{ClientArgs, Connection, OperatorArgs};
pub use dlq::{DlqArgs, DlqCommand, DlqListArgs, DlqPurgeArgs, DlqRedriveArgs, DlqShowArgs, Selection};
pub use export::ExportArgs;
pub use keys::{KeysArgs, KeysCommand, KeysCreateArgs, QuotaArgs};
pub use limits::{LeasesArgs, LimitsArgs};
pub use repair::{AuditArgs, DeleteArgs, ReconcileArgs};
pub use rerun::RerunArgs;
pub use submit::{ListFormat, SubmitArgs};

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// The word of a choice, as a flag takes it and the API does.
pub fn word(choice: impl ValueEnum) -> String {
    choice.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

#[derive(Debug, Subcommand)]
pub enum ClientCommand {
    /// Submit a list of URLs as one job
    Submit(SubmitArgs),
    /// Show a job and how far it is
    Status(StatusArgs),
    /// List the results of a job, or download them
    Results(ResultsArgs),
    /// Write the results of a run into one file: a zip of the bodies, or a table of the tasks
    Export(ExportArgs),
    /// Show the rows of a job's list that were not taken, and why
    Rejected(RejectedArgs),
    /// Show what happened to a job, and when
    Events(EventsArgs),
    /// List the notifications of a job and what came of them, or send one again
    Deliveries(DeliveriesArgs),
    /// List your uploads, or abort one
    Uploads(UploadsArgs),
    /// Show how fast a job may go and what it waits for, or change its limits while it runs
    Limits(LimitsArgs),
    /// Show which workers hold permits of your jobs
    Leases(LeasesArgs),
    /// Start nothing more of a job until it is resumed; tasks in flight go on
    Pause(JobArgs),
    /// Go on with a job that was paused
    Resume(JobArgs),
    /// Do the tasks of a job again, all of them or some, as another run
    Rerun(RerunArgs),
    /// Stop the current run of a job; tasks in flight may still finish
    Stop(JobArgs),
    /// Delete a job with everything that belongs to it, or one of its runs
    Delete(DeleteArgs),
    /// Count everything that is stored of a run, and say whether it agrees; status 1 if it does not
    Audit(AuditArgs),
    /// Look for everything that is wrong and put it right: status 0 if nothing was, 1 if something still is, 3 if all is
    /// mended
    Reconcile(Box<ReconcileArgs>),
    /// Messages that were given up: list them, send them again, let them go
    Dlq(DlqArgs),
    /// API keys, and what their callers may have: make, list and revoke them
    Keys(KeysArgs),
    /// Show the time that removals go by, or confirm it after the clock jumped
    Clock(ClockArgs),
}

impl ClientCommand {
    pub fn connection(&self) -> Connection<'_> {
        Connection::Caller(match self {
            ClientCommand::Submit(args) => &args.client,
            ClientCommand::Status(args) => &args.client,
            ClientCommand::Results(args) => &args.client,
            ClientCommand::Export(args) => &args.client,
            ClientCommand::Rejected(args) => &args.client,
            ClientCommand::Events(args) => &args.client,
            ClientCommand::Deliveries(args) => &args.client,
            ClientCommand::Uploads(args) => &args.client,
            ClientCommand::Limits(args) => &args.client,
            ClientCommand::Leases(args) => &args.client,
            ClientCommand::Rerun(args) => &args.client,
            ClientCommand::Pause(args) | ClientCommand::Resume(args) | ClientCommand::Stop(args) => {
                &args.client
            }
            ClientCommand::Delete(args) => &args.client,
            ClientCommand::Audit(args) => &args.client,
            ClientCommand::Reconcile(args) => {
                return Connection::Operator { args: &args.operator, data_dir: &args.backend.data_dir };
            }
            ClientCommand::Dlq(args) => return args.connection(),
            ClientCommand::Keys(args) => return args.connection(),
            ClientCommand::Clock(args) => return args.connection(),
        })
    }
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// The id of the job
    pub job: String,

    /// Show progress until the job is done
    #[arg(long, env = "CONVEYOR_WATCH")]
    pub watch: bool,

    #[command(flatten)]
    pub client: ClientArgs,
}

#[derive(Debug, Args)]
pub struct ResultsArgs {
    /// The id of the job
    pub job: String,

    /// A run of the job other than the latest
    #[arg(long, env = "CONVEYOR_RUN")]
    pub run: Option<String>,

    /// Which tasks
    #[arg(long, env = "CONVEYOR_STATUS", value_enum, default_value_t = ResultStatus::All)]
    pub status: ResultStatus,

    /// Download bodies into this directory, as <task id>.<type>; failed tasks go to failed.jsonl beside them
    #[arg(long, env = "CONVEYOR_OUT", value_name = "DIR")]
    pub out: Option<PathBuf>,

    #[command(flatten)]
    pub client: ClientArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ResultStatus {
    All,
    Successful,
    Failed,
    /// Waiting or being worked on
    Processing,
}

#[derive(Debug, Args)]
pub struct RejectedArgs {
    /// The id of the job
    pub job: String,

    /// A run of the job other than the latest
    #[arg(long, env = "CONVEYOR_RUN")]
    pub run: Option<String>,

    /// How the rows are written
    #[arg(long, env = "CONVEYOR_FORMAT", value_enum, default_value_t = ReportFormat::Jsonl)]
    pub format: ReportFormat,

    /// Write them to this file instead of standard output
    #[arg(long, env = "CONVEYOR_OUT", value_name = "FILE")]
    pub out: Option<PathBuf>,

    #[command(flatten)]
    pub client: ClientArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    Jsonl,
    Csv,
}

// With --json, events that are followed are one JSON object a line: a document that never ends helps nobody.
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// The id of the job
    pub job: String,

    /// Go on as events happen, until the run has ended; with --json, one JSON object a line
    #[arg(long, env = "CONVEYOR_FOLLOW")]
    pub follow: bool,

    #[command(flatten)]
    pub client: ClientArgs,
}

#[derive(Debug, Args)]
pub struct DeliveriesArgs {
    /// The id of the job
    pub job: String,

    /// Send this notification again, under the same id
    #[arg(long, env = "CONVEYOR_REPLAY", value_name = "EVENT")]
    pub replay: Option<String>,

    #[command(flatten)]
    pub client: ClientArgs,
}

#[derive(Debug, Args)]
pub struct UploadsArgs {
    /// Abort this upload: what was sent is removed
    #[arg(long, env = "CONVEYOR_ABORT", value_name = "UPLOAD")]
    pub abort: Option<String>,

    #[command(flatten)]
    pub client: ClientArgs,
}

#[derive(Debug, Args)]
pub struct JobArgs {
    /// The id of the job
    pub job: String,

    #[command(flatten)]
    pub client: ClientArgs,
}
