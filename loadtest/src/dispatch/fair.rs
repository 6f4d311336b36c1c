//! `loadtest fair`: how long a small job takes while another caller's large one drains.

use super::job::{self, Timed, is_over};
use super::system::{Backend, Plan, System};
use super::{Common, Findings, conclude, median};
use crate::client::Conveyor;
use crate::round;
use anyhow::ensure;
use clap::Args;
use conveyor_client::JobId;
use serde::Serialize;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const SMALL_TASKS: u32 = 10;
/// A small job may take twice as long as alone, and a second.
const BUSY_TIMES_MAX: f64 = 2.0;
const BUSY_MORE_MAX_SECONDS: f64 = 1.0;
const EMBEDDED_ROWS: u64 = 200_000;
const AWS_ROWS: u64 = 20_000;
const LOOK_EVERY: Duration = Duration::from_millis(10);
const GLANCE_EVERY: Duration = Duration::from_millis(100);

/// Time a job of ten tasks alone, and while a large job of another caller drains
///
/// The large job may have as many tasks in flight as the worker has slots, so that it alone would fill them all. Small
/// jobs are submitted one after another with the key of another caller, each timed from its submit until it is
/// completed: first on the idle system, then while the large job is in full swing. The medians are compared. If the
/// large job is done before the last small one, nothing was measured, and that is an error: give it more --rows.
///
/// --check wants the median of the busy system to be at most twice that of the idle one and a second.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    #[command(flatten)]
    common: Common,
    /// Which backend
    #[arg(long, default_value = "embedded")]
    backend: Backend,
    /// How many tasks the large job has; by default 200,000, or 20,000 on the AWS backend
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1_000..=1_000_000))]
    rows: Option<u64>,
    /// How many small jobs are timed, each way
    #[arg(long, value_name = "NUMBER", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=100))]
    tries: u32,
    /// The slots of the worker, and the max_inflight of the large job
    #[arg(long, value_name = "NUMBER", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    slots: u32,
    /// How long a call of the gateway takes
    #[arg(long, value_name = "MS", default_value_t = 20)]
    latency_ms: u64,
    /// Give up after this long
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    deadline_seconds: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Report {
    backend: Backend,
    rows: u64,
    slots: u32,
    latency_ms: u64,
    idle_seconds: Vec<f64>,
    busy_seconds: Vec<f64>,
    idle_median_seconds: f64,
    busy_median_seconds: f64,
    busy_to_idle: f64,
    allowed_seconds: f64,
    /// Of the large job, when the first small one was submitted and when the last was done.
    large_completed_before: u64,
    large_completed_after: u64,
    large_per_second: f64,
    max_in_flight: u64,
}

pub async fn run(settings: Settings) -> anyhow::Result<()> {
    conclude("fair", take(&settings), settings.common.check).await
}

async fn take(settings: &Settings) -> anyhow::Result<Report> {
    let default_rows = match settings.backend {
        Backend::Embedded => EMBEDDED_ROWS,
        Backend::Aws => AWS_ROWS,
    };
    let rows = settings.rows.unwrap_or(default_rows);
    let worker_flags = ["--slots", &settings.slots.to_string()].map(str::to_owned).into();
    let plan = settings.common.plan(settings.backend, settings.latency_ms)?;
    let mut system = System::start(&Plan { worker_flags, ..plan }).await?;
    let deadline = Instant::now() + Duration::from_secs(settings.deadline_seconds);
    let (large, small) = (system.caller()?, system.other_caller()?);
    let small = Timed {
        name: "small",
        caller: &small,
        tasks: SMALL_TASKS.into(),
        max_inflight: SMALL_TASKS,
        look_every: LOOK_EVERY,
        deadline,
    };
    // The first job opens connections and fills caches; it is not the one to compare with.
    small.seconds(&mut system, 1).await?;
    let idle_seconds = small.seconds(&mut system, settings.tries).await?;
    eprintln!("idle: {idle_seconds:?} s");

    let (large_job, _) = job::submit(&large, rows, settings.slots, system.scratch()).await?;
    let large_completed_before = wait_until_busy(&mut system, &large, large_job, rows, deadline).await?;
    let begin = Instant::now();
    let busy_seconds = small.seconds(&mut system, settings.tries).await?;
    eprintln!("busy: {busy_seconds:?} s");
    let run = large.latest_run(large_job).await?;
    let took = begin.elapsed().as_secs_f64();
    ensure!(!is_over(&run)?, "the large job was done before the last small one: give it more --rows");
    let large_completed_after = u64::from(run.stats.completed);
    let max_in_flight = system.gateway.counts().max_in_flight;
    // What is left of the large job is of no interest, and neither is an orderly end.
    drop(system);

    let (idle, busy) = (median(&idle_seconds), median(&busy_seconds));
    Ok(Report {
        backend: settings.backend,
        rows,
        slots: settings.slots,
        latency_ms: settings.latency_ms,
        idle_seconds,
        busy_seconds,
        idle_median_seconds: idle,
        busy_median_seconds: busy,
        busy_to_idle: round::ratio(busy / idle),
        allowed_seconds: round::seconds(allowed(idle)),
        large_completed_before,
        large_completed_after,
        large_per_second: round::rate(large_completed_after - large_completed_before, took),
        max_in_flight,
    })
}

/// The list is ingested and being worked off; returns what is completed by then.
async fn wait_until_busy(
    system: &mut System,
    large: &Conveyor,
    job_id: JobId,
    rows: u64,
    deadline: Instant,
) -> anyhow::Result<u64> {
    loop {
        system.expect_running()?;
        let run = large.latest_run(job_id).await?;
        ensure!(!is_over(&run)?, "the large job was done before it was ingested: give it more --rows");
        let ingested = !run.is_ingesting();
        if ingested && run.stats.completed > 0 {
            let in_flight = system.gateway.counts().in_flight;
            eprintln!("{} of {rows} are completed, {in_flight} are in flight", run.stats.completed);
            return Ok(run.stats.completed.into());
        }
        ensure!(Instant::now() < deadline, "the deadline passed with {} rows ingested", run.stats.total);
        sleep(GLANCE_EVERY).await;
    }
}

fn allowed(idle_seconds: f64) -> f64 {
    BUSY_TIMES_MAX * idle_seconds + BUSY_MORE_MAX_SECONDS
}

impl Findings for Report {
    fn unmet(&self) -> Vec<String> {
        let (idle, busy) = (self.idle_median_seconds, self.busy_median_seconds);
        if busy <= allowed(idle) {
            return Vec::new();
        }
        vec![format!(
            "a small job took {busy} s beside a large one and {idle} s alone, and {:.3} s is the most",
            allowed(idle)
        )]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(idle: f64, busy: f64) -> Report {
        Report {
            backend: Backend::Embedded,
            rows: 1_000,
            slots: 10,
            latency_ms: 20,
            idle_seconds: vec![idle],
            busy_seconds: vec![busy],
            idle_median_seconds: idle,
            busy_median_seconds: busy,
            busy_to_idle: busy / idle,
            allowed_seconds: allowed(idle),
            large_completed_before: 0,
            large_completed_after: 1,
            large_per_second: 1.0,
            max_in_flight: 10,
        }
    }

    #[test]
    fn twice_as_long_and_a_second_is_the_most() {
        assert!(report(0.5, 2.0).unmet().is_empty());
        assert!(report(0.5, 2.01).unmet()[0].contains("2.000 s is the most"));
        assert_eq!(report(0.5, f64::NAN).unmet().len(), 1, "no figure is no proof");
    }
}
