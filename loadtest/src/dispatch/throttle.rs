//! `loadtest throttle`: how long a job takes while DynamoDB throttles the partition of another caller's job.

use super::job::{self, Timed, is_over};
use super::system::{Backend, Plan, System};
use super::{Common, Findings, conclude, median};
use crate::client::Conveyor;
use crate::round;
use anyhow::{Context, ensure};
use clap::Args;
use conveyor_client::JobId;
use serde::Serialize;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const BESIDE_TIMES_MAX: f64 = 1.5;
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Time a job alone, beside another job, and while the other job's partition is throttled
///
/// AWS backend, with a proxy in front of DynamoDB that refuses a share of the calls that name the other job, which belongs
/// to another caller and drains meanwhile. The timed jobs are submitted one after another, each timed from its submit until
/// it is completed, and the medians are compared. If the other job is done before the last of them, nothing was measured,
/// and that is an error: give it more --rows.
///
/// --check wants the median beside the throttled job to be at most 1.5 times that of a job alone.
#[derive(Clone, Debug, Args, Serialize)]
pub struct Settings {
    #[command(flatten)]
    #[serde(skip)]
    common: Common,
    /// How many tasks a timed job has
    #[arg(long, value_name = "NUMBER", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=9_999))]
    tasks: u64,
    /// How many of them may be in flight
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_inflight: u32,
    /// How many tasks the other job has
    #[arg(long, value_name = "NUMBER", default_value_t = 9_999, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    rows: u64,
    /// How many of those may be in flight
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rows_max_inflight: u32,
    /// The share of the other job's calls that are throttled
    #[arg(long, value_name = "SHARE", default_value_t = 0.05)]
    share: f64,
    /// How many jobs are timed, each way
    #[serde(skip)]
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    tries: u32,
    /// How many workers there are
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: u32,
    /// How long a call of the gateway takes
    #[arg(long, value_name = "MS", default_value_t = 200)]
    latency_ms: u64,
    /// Give up after this long
    #[serde(skip)]
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    deadline_seconds: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    settings: Settings,
    alone_seconds: Vec<f64>,
    beside_seconds: Vec<f64>,
    beside_throttled_seconds: Vec<f64>,
    beside_to_alone: f64,
    throttled_to_alone: f64,
    /// Calls of the other job that were refused.
    throttled_calls: u64,
    other_per_second: f64,
    other_per_second_throttled: f64,
}

pub async fn run(settings: Settings) -> anyhow::Result<()> {
    conclude("throttle", take(&settings), settings.common.check).await
}

async fn take(settings: &Settings) -> anyhow::Result<Report> {
    let plan = settings.common.plan(Backend::Aws, settings.latency_ms)?;
    let mut system = System::start(&Plan { workers: settings.workers, proxied: true, ..plan }).await?;
    let deadline = Instant::now() + Duration::from_secs(settings.deadline_seconds);
    let (other, caller) = (system.caller()?, system.other_caller()?);
    let timed = Timed {
        name: "timed",
        caller: &caller,
        tasks: settings.tasks,
        max_inflight: settings.max_inflight,
        look_every: LOOK_EVERY,
        deadline,
    };
    // The first job opens connections and fills caches; it is not the one to compare with.
    timed.seconds(&mut system, 1).await?;
    let alone_seconds = timed.seconds(&mut system, settings.tries).await?;
    eprintln!("alone: {alone_seconds:?} s");

    let (job_id, _) =
        job::submit(&other, settings.rows, settings.rows_max_inflight, system.scratch()).await?;
    let mut other_job = Other { conveyor: other, job_id, completed: 0, since: Instant::now() };
    while other_job.per_second().await? <= 0.0 {
        system.expect_running()?;
        ensure!(Instant::now() < deadline, "the deadline passed before the other job began");
        sleep(LOOK_EVERY).await;
    }
    let beside_seconds = timed.seconds(&mut system, settings.tries).await?;
    let other_per_second = other_job.per_second().await?;
    eprintln!("beside: {beside_seconds:?} s");

    system
        .proxy
        .as_ref()
        .context("there is no proxy")?
        .throttle(settings.share, &other_job.job_id.to_string());
    let beside_throttled_seconds = timed.seconds(&mut system, settings.tries).await?;
    let other_per_second_throttled = other_job.per_second().await?;
    eprintln!("beside, throttled: {beside_throttled_seconds:?} s");
    let throttled_calls = system.proxy.as_ref().map_or(0, |proxy| proxy.throttled());
    ensure!(throttled_calls > 0 || settings.share == 0.0, "no call of the other job was throttled");
    // What is left of the other job is of no interest, and neither is an orderly end.
    drop(system);

    let alone = median(&alone_seconds);
    Ok(Report {
        settings: settings.clone(),
        beside_to_alone: round::ratio(median(&beside_seconds) / alone),
        throttled_to_alone: round::ratio(median(&beside_throttled_seconds) / alone),
        alone_seconds,
        beside_seconds,
        beside_throttled_seconds,
        throttled_calls,
        other_per_second,
        other_per_second_throttled,
    })
}

/// The job that is throttled.
struct Other {
    conveyor: Conveyor,
    job_id: JobId,
    completed: u64,
    since: Instant,
}

impl Other {
    /// How fast it went since the last look.
    async fn per_second(&mut self) -> anyhow::Result<f64> {
        let run = self.conveyor.latest_run(self.job_id).await?;
        ensure!(!is_over(&run)?, "the other job was done before the last timed one: give it more --rows");
        let (completed, now) = (u64::from(run.stats.completed), Instant::now());
        let rate = round::rate(completed - self.completed, (now - self.since).as_secs_f64());
        (self.completed, self.since) = (completed, now);
        Ok(rate)
    }
}

impl Findings for Report {
    fn unmet(&self) -> Vec<String> {
        if self.throttled_to_alone <= BESIDE_TIMES_MAX {
            return Vec::new();
        }
        vec![format!(
            "a job took {} times as long beside a throttled one as alone, and {BESIDE_TIMES_MAX} is the most",
            self.throttled_to_alone
        )]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(throttled_to_alone: f64) -> Report {
        let settings = Settings {
            common: Common { conveyor: None, check: false },
            tasks: 1,
            max_inflight: 1,
            rows: 1,
            rows_max_inflight: 1,
            share: 0.05,
            tries: 1,
            workers: 1,
            latency_ms: 1,
            deadline_seconds: 1,
        };
        Report {
            settings,
            alone_seconds: vec![1.0],
            beside_seconds: vec![1.0],
            beside_throttled_seconds: vec![throttled_to_alone],
            beside_to_alone: 1.0,
            throttled_to_alone,
            throttled_calls: 1,
            other_per_second: 1.0,
            other_per_second_throttled: 1.0,
        }
    }

    #[test]
    fn one_and_a_half_times_is_the_most() {
        assert!(report(1.5).unmet().is_empty());
        assert!(report(1.51).unmet()[0].contains("1.5 is the most"));
        assert_eq!(report(f64::NAN).unmet().len(), 1, "no figure is no proof");
    }
}
