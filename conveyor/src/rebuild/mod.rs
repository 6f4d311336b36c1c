//! `conveyor rebuild JOB`: the rows of a job made anew from its objects, after the table, the database file or the queues
//! were lost (SPEC 6.18). It works on the backend itself, beside whoever else does, through the ports alone: each step can
//! be broken off anywhere and repeated.

mod bodies;
mod failure;
mod foresee;
mod found;
mod notes;
mod owner;
mod pages;
mod progress;
mod proof;
mod refs;
mod report;
mod restore;
mod rows;
mod steps;

use crate::secret_text::SecretText;
use crate::server::{BackendArgs, BackendKind, ListArgs, Opened, Signals, SystemClock, entropy, find_secret};
use clap::Args;
use conveyor_domain::{Clock, HeaderSeal, JobId, RunId, Timestamp, WorkerId};
use conveyor_ingest::Ingester;
use conveyor_store::Backend;
use conveyor_store::port::ChangeCursor;
use failure::Failure;
use notes::Note;
use progress::Progress;
use report::Report;
use std::process::ExitCode;
use std::sync::Arc;

#[derive(Clone, Debug, Args)]
pub struct RebuildArgs {
    /// The job
    #[arg(value_name = "JOB")]
    pub job: JobId,

    /// One of its runs; by default the latest
    #[arg(long, env = "CONVEYOR_RUN", value_name = "RUN")]
    pub run: Option<RunId>,

    /// An API key whose job it is from now on, if the keys were lost as well; by default the one that `conveyor dev` keeps
    /// in its data directory, if there is one
    #[arg(long, env = "CONVEYOR_OWNER_KEY", value_name = "KEY", hide_env_values = true)]
    pub owner_key: Option<SecretText>,

    /// The secret of the deployment, as the servers were told; by default the one in the data directory. Custom headers in
    /// a list are sealed with it: without it such tasks are not found again
    #[arg(long, env = "CONVEYOR_SECRET_KEY", value_name = "HEX", hide_env_values = true)]
    pub secret_key: Option<SecretText>,

    /// Let the run of a job go on whose rows were all lost. By default it stays paused: its limits, and that it runs at
    /// all, are as it was submitted
    #[arg(long)]
    pub resume: bool,

    /// Say what would be done, and do nothing; only an embedded database that is missing is made, empty
    #[arg(long, env = "CONVEYOR_DRY_RUN")]
    pub dry_run: bool,

    /// Print one JSON document
    #[arg(long, env = "CONVEYOR_JSON")]
    pub json: bool,

    #[command(flatten)]
    pub place: BackendArgs,

    #[command(flatten)]
    pub lists: ListArgs,
}

/// What the steps share.
struct Rebuilder {
    backend: Backend,
    clock: Arc<dyn Clock>,
    /// What depends on the age of a run is decided as of then, once: not half way differently. Rows that are there then
    /// are so for another day.
    began: Timestamp,
    /// Under whose name results are counted.
    worker: WorkerId,
    ingester: Ingester,
    progress: Progress,
}

pub async fn run(args: RebuildArgs) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new()?;
    let ended = tokio::select! {
        biased;
        _ = signals.next() => Err(Failure::interrupted(args.dry_run)),
        ended = rebuild(&args) => ended,
    };
    match ended {
        Ok(report) => {
            println!("{}", if args.json { report.json().to_string() } else { report.text() });
            Ok(ExitCode::SUCCESS)
        }
        Err(failure) => Ok(failure.say(args.json)),
    }
}

async fn rebuild(args: &RebuildArgs) -> Result<Report, Failure> {
    let dir = &args.place.data_dir;
    let has_data = || ["conveyor.db", "blobs"].iter().any(|name| dir.join(name).exists());
    if args.place.backend == BackendKind::Embedded && !has_data() {
        // Opening it would make it, and then find nothing in it.
        return Err(Failure::no_data(dir));
    }
    let clock = Arc::new(SystemClock::new());
    let entropy = Arc::new(entropy().map_err(Failure::unopened)?);
    let opened = Opened::open(&args.place, &entropy, &clock).await.map_err(Failure::unopened)?;
    let backend = opened.backend();
    // What is written is found by workers that look from now on, however old the job is. A look that fails, because of runs
    // that are nothing to this job, has told the store the time all the same.
    let now = clock.now();
    if let Err(error) = backend.store.changed_runs(Some(ChangeCursor::at(now)), now).await {
        tracing::debug!(%error, "the runs that changed cannot be read now");
    }
    let given = args.secret_key.as_ref().map(SecretText::expose);
    let secret = find_secret(given, dir).map_err(Failure::unopened)?;
    let ingester = Ingester::new(backend.clone(), clock.clone(), &entropy, args.lists.ingest());
    let ingester = match secret {
        Some(secret) => ingester.sealing(HeaderSeal::new(secret, entropy.clone())),
        None => ingester,
    };
    let rebuilder = Rebuilder {
        worker: WorkerId::new(clock.now(), &entropy),
        ingester,
        progress: Progress::new(!args.json),
        began: clock.now(),
        backend,
        clock,
    };
    let report = tokio::select! {
        report = rebuilder.rebuild(args) => report,
        reason = opened.broken() => return Err(Failure::unopened(anyhow::Error::msg(reason))),
    };
    let Err(failure) = report else { return report };
    for note in [Note::Paused, Note::Anew] {
        if notes::is_taken(&rebuilder.backend, args.job, note).await.unwrap_or(false) {
            return Err(failure.with_paused_run());
        }
    }
    Err(failure)
}
