//! Flags of `conveyor limits` and `conveyor leases`.

use super::ClientArgs;
use super::submit::{parse_rate, parse_ratio};
use clap::Args;
use conveyor_domain::limits;

// What changes a job has no variable: one that is meant for submits would change a job that is only looked at.
#[derive(Debug, Args)]
pub struct LimitsArgs {
    /// The id of the job
    pub job: String,

    /// From now on, so many tasks of the job may be in flight at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::MAX_INFLIGHT_MAX)))]
    pub max_inflight: Option<u32>,

    /// From now on, so many tasks of the job may start in a second, over all workers
    #[arg(long, value_name = "R", value_parser = parse_rate)]
    pub rate: Option<f64>,

    /// No limit to the rate any more
    #[arg(long, conflicts_with_all = ["rate", "burst"])]
    pub no_rate: bool,

    /// How many may start at once after a quiet time [default: as many as in a second]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::BURST_MAX)))]
    pub burst: Option<u32>,

    /// Attempts at a task before it has failed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::RETRY_ATTEMPTS_MAX)))]
    pub attempts_max: Option<u32>,

    /// Pause the job when more of its tasks fail than this: `0.2` is one in five
    #[arg(long, value_name = "RATIO", value_parser = parse_ratio)]
    pub max_failure_ratio: Option<f64>,

    /// However many of its tasks fail, the job goes on
    #[arg(long, conflicts_with = "max_failure_ratio")]
    pub no_max_failure_ratio: bool,

    /// Show it anew every second until the run has ended; with --json, one JSON object a line
    #[arg(long, env = "CONVEYOR_WATCH")]
    pub watch: bool,

    #[command(flatten)]
    pub client: ClientArgs,
}

#[derive(Debug, Args)]
pub struct LeasesArgs {
    /// The id of a job; without it, all of yours that run
    pub job: Option<String>,

    #[command(flatten)]
    pub client: ClientArgs,
}
