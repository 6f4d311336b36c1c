//! `loadtest ingest`: how fast Conveyor ingests a staged list, and how fast others take the same rows beside it.

mod measure;
mod report;
mod server;

use crate::floors::{self, Bench};
use crate::list::List;
use crate::process::{conveyor_program, unless_stopped};
use anyhow::Context;
use clap::Args;
use measure::Measured;
pub use measure::{check_results, is_ingested};
use report::Report;
use reqwest::Url;
use server::Server;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;

/// Upload a list, submit it, and print how long its ingest took
///
/// Without --server, a Conveyor is started for it (`conveyor dev`, on a temporary data directory and a free port of
/// 127.0.0.1) and ended afterwards. `dev` also drains what it ingests, and would compete with itself: so the job has
/// max_inflight 1, and the gateway is one of ours that never answers. With --server, see to it that the gateway there
/// is slow; the job is stopped and deleted at the end, or left to be looked at if something failed.
///
/// The last line on stdout is one JSON object. `ingest_seconds` is from the answer to the submit until `ingest_status`
/// is `done`, `rows_per_second` is rows over that; meanwhile the job is read every 20 ms over one connection, and
/// `status_*` tells how long that took. Memory is that of the server's whole process. The exit status is 1 if a row
/// is missing or the deadline passed.
///
/// Figures are only worth something beside others of the same machine and minute: --floors takes them. See `loadtest
/// floors --help`.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// The program to start and measure; by default the `conveyor` beside this one
    #[arg(long, value_name = "PROGRAM")]
    conveyor: Option<PathBuf>,
    /// A Conveyor that is running, to measure instead; --conveyor goes before it
    #[arg(long, value_name = "URL", env = "CONVEYOR_SERVER", requires = "api_key")]
    server: Option<Url>,
    /// A key of that Conveyor
    #[arg(long, value_name = "KEY", env = "CONVEYOR_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
    /// The process of that Conveyor, to know its memory
    #[arg(long, value_name = "PID", requires = "server", conflicts_with = "conveyor")]
    server_pid: Option<u32>,
    /// How many rows the list has; a row is about 90 bytes
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    rows: u64,
    /// Compress the list before it is uploaded
    #[arg(long)]
    gzip: bool,
    /// Read every row back and compare it with the list
    #[arg(long)]
    check_results: bool,
    /// Give up on Conveyor after this long
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    deadline_seconds: u64,
    /// Measure PostgreSQL COPY, BullMQ, pg-boss and graphile-worker too, one after another, on the same rows
    #[arg(long)]
    floors: bool,
    #[command(flatten)]
    bench: floors::BenchSettings,
}

pub async fn run(settings: Settings) -> anyhow::Result<()> {
    let report = unless_stopped(take(settings)).await?;
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

async fn take(settings: Settings) -> anyhow::Result<Report> {
    // What is missing is found out now, not after minutes of measuring.
    let subject = Subject::of(&settings)?;
    let scratch = settings.bench.scratch()?;
    let bench = if settings.floors { Some(Bench::prepare(&settings.bench).await?) } else { None };
    eprintln!("writing a list of {} rows", settings.rows);
    let list = List::write(scratch.path(), settings.rows).await?;
    let uploaded = if settings.gzip { list.gzip().await? } else { list.clone() };

    let Some(bench) = bench else {
        return conveyor(&settings, &subject, scratch.path(), &list, &uploaded).await;
    };
    let indexed = List::write_indexed(scratch.path(), settings.rows).await?;
    // Before and after: the machine may have become faster or slower meanwhile.
    let before = bench.copy(&indexed).await?;
    let mut report = conveyor(&settings, &subject, scratch.path(), &list, &uploaded).await?;
    let after = bench.copy(&indexed).await?;
    let peers = bench.peers(&list).await?;
    report.add_floors(bench.floors(&list, (before, after), peers));
    Ok(report)
}

/// Measures Conveyor alone.
async fn conveyor(
    settings: &Settings,
    subject: &Subject,
    scratch: &Path,
    list: &List,
    uploaded: &List,
) -> anyhow::Result<Report> {
    floors::sync(scratch).await?;
    let deadline = Instant::now() + Duration::from_secs(settings.deadline_seconds);
    let server = subject.server(scratch, list.rows).await?;
    let measured = measure::ingest(&server.conveyor, uploaded, deadline).await?;
    let mut report = Report::new(list, uploaded, &measured);
    if settings.check_results {
        report.add_check(check(&server, &measured, list.rows, deadline).await?);
    }
    if let Some(memory) = server.memory()? {
        report.add_memory(memory);
    }
    server.clean_up(measured.job_id).await?;
    Ok(report)
}

async fn check(
    server: &Server,
    measured: &Measured,
    rows: u64,
    deadline: Instant,
) -> anyhow::Result<Duration> {
    let begin = Instant::now();
    measure::check_results(&server.conveyor, measured.job_id, rows, deadline).await?;
    eprintln!("every row is there, in order");
    Ok(begin.elapsed())
}

/// Where the Conveyor comes from.
#[derive(Debug)]
enum Subject {
    Running { url: Url, api_key: String, process: Option<u32> },
    Program(PathBuf),
}

impl Subject {
    fn of(settings: &Settings) -> anyhow::Result<Subject> {
        if let (None, Some(url), Some(api_key)) = (&settings.conveyor, &settings.server, &settings.api_key) {
            let (url, api_key) = (url.clone(), api_key.clone());
            return Ok(Subject::Running { url, api_key, process: settings.server_pid });
        }
        let program = conveyor_program(settings.conveyor.as_deref())
            .context("no running Conveyor was named with --server")?;
        Ok(Subject::Program(program))
    }

    async fn server(&self, scratch: &Path, rows: u64) -> anyhow::Result<Server> {
        match self {
            Subject::Running { url, api_key, process } => Server::running(url, api_key.clone(), *process),
            Subject::Program(program) => {
                eprintln!("starting {} dev", program.display());
                Server::start(program, scratch, rows).await
            }
        }
    }
}
