//! Flags of `conveyor audit`, `delete` and `reconcile`.

use super::{ClientArgs, OperatorArgs};
use crate::server::BackendArgs;
use clap::Args;
use conveyor_domain::JobId;

#[derive(Debug, Args)]
pub struct AuditArgs {
    /// The id of the job
    pub job: String,

    /// A run of the job other than the latest
    #[arg(long, env = "CONVEYOR_RUN")]
    pub run: Option<String>,

    /// Also read every body, and verify it against its checksum
    #[arg(long, env = "CONVEYOR_DEEP")]
    pub deep: bool,

    #[command(flatten)]
    pub client: ClientArgs,
}

#[derive(Debug, Args)]
pub struct DeleteArgs {
    /// The id of the job
    pub job: String,

    // Without a variable: one that was meant for reading a run must not decide what is deleted.
    /// Only this run of the job
    #[arg(long)]
    pub run: Option<String>,

    #[command(flatten)]
    pub client: ClientArgs,
}

#[derive(Debug, Args)]
pub struct ReconcileArgs {
    /// Look at this job alone
    #[arg(long, env = "CONVEYOR_JOB", value_name = "JOB")]
    pub job: Option<JobId>,

    /// Only say what is wrong, and what would be done
    #[arg(long, env = "CONVEYOR_DRY_RUN")]
    pub dry_run: bool,

    /// Do not look again for what cannot be told yet
    #[arg(long, env = "CONVEYOR_NO_WAIT")]
    pub no_wait: bool,

    /// Work on the backend itself, for when no server is up: with the flags of a server's backend
    #[arg(long, env = "CONVEYOR_DIRECT")]
    pub direct: bool,

    #[command(flatten)]
    pub operator: OperatorArgs,

    #[command(flatten)]
    pub backend: BackendArgs,
}
