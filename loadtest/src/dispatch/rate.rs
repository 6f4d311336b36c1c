//! `loadtest rate`: whether calls keep to a rate, also when a worker dies meanwhile.

use super::excess::{mean_rate, most_at_once, worst_excess};
use super::job::{self, missing};
use super::system::{Backend, Plan, System};
use super::{Common, Findings, conclude};
use crate::round;
use anyhow::{Context, ensure};
use clap::Args;
use conveyor_client::wire::{Decimal, RateBody, SubmitJob};
use serde::Serialize;
use std::cmp::Reverse;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Of the rate, from the first call to the last.
const MEAN_MIN_SHARE: f64 = 0.98;
const LOOK_EVERY: Duration = Duration::from_millis(500);
const GLANCE_EVERY: Duration = Duration::from_millis(20);

/// Run a job with a rate limit, kill a worker in the middle, and print what the gateway saw of it
///
/// One job with `rate_limit`, on the AWS backend with AWS-compatible servers and several workers, or on the embedded one
/// with its one process. Once half of the calls have begun, the worker that has received the most is killed with SIGKILL
/// and started anew. What it had not done comes back after --visibility-ms, which is short here, so that the last calls
/// are not the ones that waited for that.
///
/// `worst_excess` is by how much the calls were more than burst + per_second * (t + lateness), in the worst window of any length t;
/// below 0 there was always room. `mean_per_second` is from the first call to the last. Both are of the gateway's own
/// times, and of all calls, also of those that were made again. --check wants an excess of at most 0, every task
/// successful, and on the AWS backend a mean of 98% of the rate (49 of 50).
#[derive(Clone, Debug, Args)]
pub struct Settings {
    #[command(flatten)]
    common: Common,
    /// Which backend
    #[arg(long, default_value = "aws")]
    backend: Backend,
    /// How many tasks the job has
    #[arg(long, value_name = "NUMBER", default_value_t = 3_000, value_parser = clap::value_parser!(u64).range(2..=9_999))]
    tasks: u64,
    /// The rate
    #[arg(long, value_name = "NUMBER", default_value_t = 50.0)]
    per_second: f64,
    /// The burst
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    burst: u32,
    /// How many may be in flight
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_inflight: u32,
    /// How many workers there are, on the AWS backend
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: u32,
    /// How long a call of the gateway takes
    #[arg(long, value_name = "MS", default_value_t = 50)]
    latency_ms: u64,
    /// After what time the messages of the killed worker come back
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    visibility_ms: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Report {
    backend: Backend,
    workers: u32,
    tasks: u64,
    per_second: f64,
    burst: u32,
    latency_ms: u64,
    completed: u64,
    failed: u64,
    /// Calls, and those of them that were made again.
    arrivals: u64,
    repeated: u64,
    worst_excess: Option<f64>,
    mean_per_second: Option<f64>,
    longest_gap_ms: u64,
    restarted_at_arrival: u64,
    /// Messages; a worker that did nothing would not be missed.
    killed_had_received: u64,
    restart_seconds: f64,
    elapsed_seconds: f64,
}

pub async fn run(settings: Settings) -> anyhow::Result<()> {
    ensure!((0.1..=100_000.0).contains(&settings.per_second), "--per-second is a number from 0.1 to 100000");
    conclude("rate", take(&settings), settings.common.check).await
}

async fn take(settings: &Settings) -> anyhow::Result<Report> {
    let worker_flags = ["--visibility-ms", &settings.visibility_ms.to_string()].map(str::to_owned).into();
    let plan = settings.common.plan(settings.backend, settings.latency_ms)?;
    let mut system = System::start(&Plan { workers: settings.workers, worker_flags, ..plan }).await?;
    let begin = Instant::now();
    let at_rate = Duration::from_secs_f64(settings.tasks as f64 / settings.per_second);
    let deadline = begin + 2 * at_rate + Duration::from_secs(120);
    let rate = RateBody { per_second: Decimal(settings.per_second), burst: Some(settings.burst.into()) };
    let limits = SubmitJob { rate_limit: Some(rate), ..SubmitJob::default() };
    let urls = job::urls(settings.tasks);
    let submitted = system.caller()?.submit_limited(&urls, settings.max_inflight, limits).await?;

    let restarted_at_arrival = wait_for_calls(&mut system, settings.tasks / 2, deadline).await?;
    let received = system.metric_of_each("conveyor_messages_received_total").await?;
    let busiest = received.into_iter().min_by_key(|(_, received)| Reverse(*received));
    let (victim, killed_had_received) = busiest.context("there is no worker")?;
    let restart = Instant::now();
    system.restart(&victim).await?;
    let restart_seconds = restart.elapsed().as_secs_f64();
    eprintln!("killed a worker after {restarted_at_arrival} calls; started anew in {restart_seconds:.2} s");

    let conveyor = system.caller()?;
    let run = job::watch(&mut system, &conveyor, submitted.job_id, LOOK_EVERY, deadline).await?;
    let elapsed = begin.elapsed().as_secs_f64();
    let arrivals_us = system.gateway.history()?.0.arrivals_us();
    let counts = system.gateway.counts();
    let longest_gap_us = arrivals_us.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
    let at_once = most_at_once(settings.per_second, settings.burst);
    let report = Report {
        backend: settings.backend,
        workers: u32::try_from(system.workers().len())?,
        tasks: settings.tasks,
        per_second: settings.per_second,
        burst: settings.burst,
        latency_ms: settings.latency_ms,
        completed: run.stats.completed.into(),
        failed: run.stats.failed.into(),
        arrivals: counts.calls,
        repeated: counts.calls - counts.distinct_urls,
        worst_excess: worst_excess(&arrivals_us, settings.per_second, at_once).map(round::ratio),
        mean_per_second: mean_rate(&arrivals_us).map(round::ratio),
        longest_gap_ms: longest_gap_us / 1000,
        restarted_at_arrival,
        killed_had_received,
        restart_seconds: round::seconds(restart_seconds),
        elapsed_seconds: round::seconds(elapsed),
    };
    system.stop().await?;
    Ok(report)
}

async fn wait_for_calls(system: &mut System, calls: u64, deadline: Instant) -> anyhow::Result<u64> {
    loop {
        let so_far = system.gateway.counts().calls;
        if so_far >= calls {
            return Ok(so_far);
        }
        system.expect_running()?;
        ensure!(Instant::now() < deadline, "the deadline passed with {so_far} calls");
        sleep(GLANCE_EVERY).await;
    }
}

impl Findings for Report {
    fn unmet(&self) -> Vec<String> {
        let mut unmet: Vec<String> = missing(self.completed, self.failed, self.tasks).into_iter().collect();
        match self.worst_excess {
            Some(excess) if excess <= 0.0 => {}
            Some(excess) => unmet.push(format!(
                "{excess} calls more than {} + {} a second in some window",
                self.burst, self.per_second
            )),
            None => unmet.push("there was no call".to_owned()),
        }
        if self.killed_had_received == 0 {
            unmet.push("the killed worker had done nothing".to_owned());
        }
        // One process that is started anew cannot but lose the time of that.
        if self.backend == Backend::Aws {
            let least = self.per_second * MEAN_MIN_SHARE;
            let mean = self.mean_per_second.unwrap_or(0.0);
            if mean < least {
                unmet.push(format!("{mean} calls a second, and {least} is the least"));
            }
        }
        unmet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        Report {
            backend: Backend::Aws,
            workers: 3,
            tasks: 3_000,
            per_second: 50.0,
            burst: 10,
            latency_ms: 50,
            completed: 3_000,
            failed: 0,
            arrivals: 3_004,
            repeated: 4,
            worst_excess: Some(0.0),
            mean_per_second: Some(49.0),
            longest_gap_ms: 100,
            restarted_at_arrival: 1_500,
            killed_had_received: 600,
            restart_seconds: 0.2,
            elapsed_seconds: 61.0,
        }
    }

    #[test]
    fn each_requirement_is_met_or_named() {
        assert!(report().unmet().is_empty());
        let fast = Report { worst_excess: Some(0.001), ..report() };
        assert_eq!(fast.unmet(), ["0.001 calls more than 10 + 50 a second in some window"]);
        let slow = Report { mean_per_second: Some(48.999), ..report() };
        assert!(slow.unmet()[0].contains("49 is the least"));
        assert!(Report { mean_per_second: None, ..report() }.unmet()[0].contains("0 calls a second"));
        assert!(Report { worst_excess: None, ..report() }.unmet()[0].contains("no call"));
        assert!(Report { killed_had_received: 0, ..report() }.unmet()[0].contains("had done nothing"));
        assert!(Report { failed: 1, ..report() }.unmet()[0].contains("2999 of 3000"));
    }

    #[test]
    fn one_process_that_starts_anew_may_lose_time_but_never_hurry() {
        let embedded = Report { backend: Backend::Embedded, mean_per_second: Some(40.0), ..report() };
        assert!(embedded.unmet().is_empty());
        assert_eq!(Report { worst_excess: Some(1.0), ..embedded }.unmet().len(), 1);
    }
}
