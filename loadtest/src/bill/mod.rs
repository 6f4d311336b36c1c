//! `loadtest bill`: what a job costs on AWS, counted call by call and unit by unit.

mod measure;
mod price;
mod report;
mod usage;

use crate::client::Conveyor;
use crate::deployment::{Place, Roles};
use crate::process::{conveyor_program, unless_stopped};
use anyhow::ensure;
use clap::Args;
use conveyor_aws_servers::Combination;
use measure::{Job, measure};
use report::{Report, Subject};
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::Instant;

/// Run one job on AWS-compatible servers, and print what it would cost on AWS
///
/// Starts the servers (they are installed at the first run), makes the resources with
/// `conveyor provision`, and runs `conveyor api`, `ingest`, `sweeper` and `worker` on them, each
/// as a process of its own. Up to 9,999 tasks are submitted in the request, more as a staged
/// list. Every role's /metrics are read between the phases:
///
///   submit       from the caller's first request to the answer to the submit
///   ingest       until ingest_status is `done`
///   drain        from the start of the workers until every task is completed
///   completion   until the run is completed and its queue is deleted
///   enumeration  all results are read back, by pages of 1,000; not in the total
///
/// Without --overlap, workers start when the ingest is done. What roles do while they wait is
/// in the bill, and so is every read of the job by this command (`status_reads`).
///
/// The last line on stdout is one JSON object: calls, units, requests and list-price dollars
/// of each phase and in total. A table goes to stderr. Every try of a call counts. Capacity
/// units are what the DynamoDB server says that a call consumed; `dynamodb-local` does not
/// tell it of transactions and statements, and its bill is too low.
#[derive(Clone, Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Settings {
    /// The program to run; by default the `conveyor` beside this one
    #[arg(long, value_name = "PROGRAM")]
    conveyor: Option<PathBuf>,
    /// How many tasks the job has
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    tasks: u64,
    /// How many workers drain it
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: u32,
    /// How many tasks may be in flight
    #[arg(long, value_name = "NUMBER", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_inflight: u32,
    /// Who answers the tasks: `demo:` (synthetic pages, which are stored) or `null:` (nothing to store)
    #[arg(long, value_name = "URL", default_value = "demo:")]
    gateway_url: String,
    /// The servers: default (dynoxide and localstack), ministack, or dynamodb-local (with localstack)
    #[arg(long, value_name = "SERVERS", default_value_t = Combination::Default)]
    servers: Combination,
    /// Use the AWS that AWS_* and CONVEYOR_AWS_TABLE, _QUEUE_PREFIX and _BUCKET name instead; what is made there is left
    /// there
    #[arg(long, conflicts_with = "servers")]
    endpoints_from_env: bool,
    /// Start the workers first, so that they drain while the list is ingested
    #[arg(long)]
    overlap: bool,
    /// Exit with 1 if a task costs more than its budget: 4.2 write units, 0.6 read units, 0.35 SQS requests, and 1.25
    /// rows read per row returned
    #[arg(long)]
    check: bool,
    /// Give up after this long
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    deadline_seconds: u64,
}

pub async fn run(settings: Settings) -> anyhow::Result<()> {
    let report = unless_stopped(take(&settings)).await?;
    eprint!("{}", report.table());
    println!("{}", serde_json::to_string(&report)?);
    let over = report.over_budget();
    ensure!(!settings.check || over.is_empty(), "over budget: {}", over.join("; "));
    over.iter().for_each(|what| eprintln!("over budget: {what}"));
    Ok(())
}

async fn take(settings: &Settings) -> anyhow::Result<Report> {
    // What is missing is found out now, not after the servers were installed.
    let program = conveyor_program(settings.conveyor.as_deref())?;
    let scratch = tempfile::Builder::new().prefix("loadtest-").tempdir()?;
    let servers = (!settings.endpoints_from_env).then_some(settings.servers);
    let place = match servers {
        Some(servers) => {
            eprintln!("starting AWS-compatible servers ({servers})");
            Place::start(servers, &settings.gateway_url).await?
        }
        None => Place::of_caller(&settings.gateway_url)?,
    };
    let mut roles = Roles::new(program, place.variables.clone(), scratch.path())?;
    roles.provision().await?;
    let api = roles.start("api", &[]).await?;
    roles.start("ingest", &[]).await?;
    roles.start("sweeper", &[]).await?;
    let conveyor = Conveyor::new(&api, &place.api_keys[0])?;
    let job = Job {
        tasks: settings.tasks,
        workers: settings.workers,
        max_inflight: settings.max_inflight,
        overlap: settings.overlap,
        scratch: scratch.path(),
        deadline: Instant::now() + Duration::from_secs(settings.deadline_seconds),
    };
    let measured = measure(&mut roles, &conveyor, &api, &job).await?;
    roles.stop().await?;
    let subject = Subject {
        tasks: settings.tasks,
        gateway_url: settings.gateway_url.clone(),
        servers: servers.map_or_else(|| "from-env".to_owned(), |servers| servers.to_string()),
        workers: settings.workers,
        overlap: settings.overlap,
    };
    Ok(Report::new(subject, measured.seen, &measured.phases, &measured.enumeration))
}
