//! `loadtest drain`: how fast a running Conveyor accepts tasks and works them off.

use crate::client::{Conveyor, reason};
use crate::round;
use anyhow::{bail, ensure};
use clap::Args;
use conveyor_client::wire::Run;
use conveyor_client::{JobId, RunStatus};
use reqwest::Url;
use serde::Serialize;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Submit tasks, wait until they are done, and print how long it took
///
/// Tasks are submitted one job after another, and worked on as soon as they are accepted. The last line on stdout is
/// one JSON object; `submit_seconds` ends with the last submit, `drain_seconds` with the last task, and both begin
/// with the first submit. `tasks_per_second` is tasks over drain_seconds. The exit status is 1 if a task failed or
/// the deadline passed.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// The Conveyor to measure
    #[arg(long, value_name = "URL", env = "CONVEYOR_SERVER", default_value = "http://127.0.0.1:8080")]
    server: Url,
    /// A key of that Conveyor
    #[arg(long, value_name = "KEY", env = "CONVEYOR_API_KEY", hide_env_values = true)]
    api_key: String,
    /// How many tasks in all
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    tasks: u64,
    /// The most tasks in one job
    #[arg(long, value_name = "NUMBER", default_value_t = 5000, value_parser = clap::value_parser!(u64).range(1..=9999))]
    batches_of: u64,
    /// How many tasks of one job may be in flight
    #[arg(long, value_name = "NUMBER", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_inflight: u32,
    /// What the target URLs begin with; the number of the task is appended
    #[arg(long, value_name = "URL", default_value = "http://target.example/item/")]
    target: String,
    /// Give up after this long
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    deadline_seconds: u64,
    /// How often unfinished jobs are looked at
    #[arg(long, value_name = "MS", default_value_t = 50)]
    poll_ms: u64,
}

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    tasks: u64,
    submit_seconds: f64,
    drain_seconds: f64,
    tasks_per_second: f64,
    jobs: usize,
}

pub async fn run(settings: Settings) -> anyhow::Result<()> {
    let conveyor = Conveyor::new(&settings.server, &settings.api_key)?;
    let begin = Instant::now();
    let deadline = begin + Duration::from_secs(settings.deadline_seconds);
    let jobs = submit_all(&conveyor, &settings, deadline).await?;
    let submit_seconds = begin.elapsed().as_secs_f64();
    eprintln!("submitted {} tasks in {} jobs, {submit_seconds:.2} s", settings.tasks, jobs.len());

    wait_for_all(&conveyor, &settings, &jobs, deadline).await?;
    let drain_seconds = begin.elapsed().as_secs_f64();
    let report = Report {
        bench: "drain",
        tasks: settings.tasks,
        submit_seconds: round::seconds(submit_seconds),
        drain_seconds: round::seconds(drain_seconds),
        tasks_per_second: round::rate(settings.tasks, drain_seconds),
        jobs: jobs.len(),
    };
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

#[derive(Debug)]
struct Job {
    id: JobId,
    tasks: u64,
}

async fn submit_all(conveyor: &Conveyor, settings: &Settings, deadline: Instant) -> anyhow::Result<Vec<Job>> {
    let mut jobs = Vec::new();
    let mut submitted = 0;
    while submitted < settings.tasks {
        ensure!(
            Instant::now() < deadline,
            "the deadline passed with {submitted} of {} tasks submitted",
            settings.tasks
        );
        let end = settings.tasks.min(submitted + settings.batches_of);
        let urls: Vec<String> = (submitted..end).map(|n| format!("{}{n}", settings.target)).collect();
        let answer = conveyor.submit(&urls, settings.max_inflight).await?;
        let tasks = end - submitted;
        ensure!(
            answer.accepted_tasks as u64 == tasks,
            "{} of {tasks} tasks were accepted",
            answer.accepted_tasks
        );
        jobs.push(Job { id: answer.job_id, tasks });
        submitted = end;
    }
    Ok(jobs)
}

/// Looks at the jobs in the order they were submitted, one at a time: the benchmark should not be the load.
async fn wait_for_all(
    conveyor: &Conveyor,
    settings: &Settings,
    jobs: &[Job],
    deadline: Instant,
) -> anyhow::Result<()> {
    for (done, job) in jobs.iter().enumerate() {
        loop {
            let run = conveyor.latest_run(job.id).await?;
            if check(job, &run)? {
                eprintln!("{} of {} jobs are done", done + 1, jobs.len());
                break;
            }
            if Instant::now() >= deadline {
                let (completed, seconds) = (run.stats.completed, settings.deadline_seconds);
                bail!(
                    "not drained after {seconds} s: job {} has completed {completed} of {} tasks",
                    job.id,
                    job.tasks
                );
            }
            sleep(Duration::from_millis(settings.poll_ms)).await;
        }
    }
    Ok(())
}

/// Whether the run is done. A benchmark of failures measures nothing, so they end it.
fn check(job: &Job, run: &Run) -> anyhow::Result<bool> {
    match run.status.known() {
        Some(RunStatus::Running | RunStatus::Pending) => Ok(false),
        Some(RunStatus::Completed) if run.stats.failed > 0 => {
            bail!("{} of {} tasks of job {} failed", run.stats.failed, job.tasks, job.id)
        }
        Some(RunStatus::Completed) => {
            let (total, completed) = (run.stats.total, run.stats.completed);
            ensure!(
                u64::from(total) == job.tasks && completed == total,
                "job {} is completed with {completed} of {total} tasks, and {} were submitted",
                job.id,
                job.tasks
            );
            Ok(true)
        }
        Some(RunStatus::Stopped | RunStatus::Failed | RunStatus::Deleted) | None => {
            let detail = run.failure_detail.as_deref().unwrap_or_default();
            bail!("the run of job {} ended as {}: {} {detail}", job.id, run.status, reason(run))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::run;

    fn judged(status: &str, total: u64, completed: u64, failed: u64) -> Result<bool, String> {
        let run = run(status, None, total, completed, failed);
        let job = Job { id: run.job_id, tasks: 10 };
        check(&job, &run).map_err(|error| error.to_string())
    }

    #[test]
    fn done_means_every_task_succeeded() {
        assert_eq!(judged("running", 10, 3, 0), Ok(false));
        assert_eq!(judged("completed", 10, 10, 0), Ok(true));
        assert!(judged("completed", 10, 10, 2).unwrap_err().contains("2 of 10 tasks"));
        assert!(judged("completed", 9, 9, 0).unwrap_err().contains("10 were submitted"));
        assert!(judged("failed", 10, 3, 0).unwrap_err().contains("ended as failed: insufficient_credits"));
        assert!(judged("stopped", 10, 3, 0).is_err());
    }
}
