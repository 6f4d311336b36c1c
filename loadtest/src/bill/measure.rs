//! One job from its submit to its last page of results, phase by phase.

use super::report::{ENUMERATION, Phase, Seen};
use super::usage::{S3, Usage};
use crate::client::{Conveyor, reason};
use crate::deployment::Roles;
use crate::dispatch;
use crate::ingest::{check_results, is_ingested};
use anyhow::ensure;
use conveyor_client::wire::Run;
use conveyor_client::{JobId, RunStatus};
use reqwest::Url;
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Every look costs reads that are in the bill, so they are few.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long a queue may outlive its run.
const QUEUE_GONE_WITHIN: Duration = Duration::from_secs(60);

/// The job, and who is to work on it.
#[derive(Debug)]
pub struct Job<'a> {
    pub tasks: u64,
    pub workers: u32,
    pub max_inflight: u32,
    /// Workers are there from the beginning.
    pub overlap: bool,
    /// Where the list is written.
    pub scratch: &'a Path,
    pub deadline: Instant,
}

#[derive(Debug)]
pub struct Measured {
    /// Submit, ingest, drain, completion.
    pub phases: Vec<Phase>,
    pub enumeration: Phase,
    pub seen: Seen,
}

/// Cuts time into phases: each begins where the one before ended.
#[derive(Debug)]
struct Meter<'a> {
    roles: &'a mut Roles,
    before: Usage,
    begin: Instant,
}

impl Meter<'_> {
    async fn start(roles: &mut Roles) -> anyhow::Result<Meter<'_>> {
        let before = usage_of(roles).await?;
        Ok(Meter { roles, before, begin: Instant::now() })
    }

    async fn cut(&mut self, name: &'static str) -> anyhow::Result<Phase> {
        let (now, after) = (Instant::now(), usage_of(self.roles).await?);
        let phase = Phase { name, took: now - self.begin, usage: after.since(&self.before) };
        eprintln!("{name}: {:.1} s", phase.took.as_secs_f64());
        (self.before, self.begin) = (after, Instant::now());
        Ok(phase)
    }
}

/// What all roles have used since they started.
async fn usage_of(roles: &mut Roles) -> anyhow::Result<Usage> {
    let mut usage = Usage::default();
    roles.metrics().await?.iter().for_each(|page| usage += &Usage::parse(page));
    Ok(usage)
}

/// Runs the job. The API, the ingest and the sweeper run already.
pub async fn measure(
    roles: &mut Roles,
    conveyor: &Conveyor,
    api: &Url,
    job: &Job<'_>,
) -> anyhow::Result<Measured> {
    if job.overlap {
        start_workers(roles, job).await?;
    }
    let mut look = Look { conveyor, tasks: job.tasks, deadline: job.deadline, reads: 0 };
    let mut meter = Meter::start(roles).await?;
    let deleted_before = meter.before.queues_deleted;

    let (job_id, target) = dispatch::submit(conveyor, job.tasks, job.max_inflight, job.scratch).await?;
    let mut submitted = meter.cut("submit").await?;
    // Sent by us on behalf of the caller: no role counts it, and it is charged all the same.
    if target.is_some_and(|target| Url::parse(&target).is_ok_and(|target| target.origin() != api.origin())) {
        submitted.usage.add_calls(S3, "PutObject", 1);
    }

    look.until(meter.roles, job_id, |run| is_ingested(run, job.tasks)).await?;
    let ingested = meter.cut("ingest").await?;

    if !job.overlap {
        start_workers(meter.roles, job).await?;
    }
    look.until(meter.roles, job_id, |run| is_drained(run, job.tasks)).await?;
    let drained = meter.cut("drain").await?;

    look.until(meter.roles, job_id, |run| is_completed(run, job.tasks)).await?;
    let queue_deleted = queue_is_gone(meter.roles, deleted_before).await?;
    let completed = meter.cut("completion").await?;

    check_results(conveyor, job_id, job.tasks, job.deadline).await?;
    let enumeration = meter.cut(ENUMERATION).await?;
    let task_shard_count = conveyor.task_shard_count(job_id).await?;
    Ok(Measured {
        phases: vec![submitted, ingested, drained, completed],
        enumeration,
        seen: Seen { task_shard_count, queue_deleted, status_reads: look.reads },
    })
}

async fn start_workers(roles: &mut Roles, job: &Job<'_>) -> anyhow::Result<()> {
    for _ in 0..job.workers {
        roles.start("worker", &[]).await?;
    }
    Ok(())
}

/// Looks at the job again and again.
struct Look<'a> {
    conveyor: &'a Conveyor,
    tasks: u64,
    deadline: Instant,
    reads: u64,
}

impl Look<'_> {
    async fn until(
        &mut self,
        roles: &mut Roles,
        job_id: JobId,
        is_there: impl Fn(&Run) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        loop {
            roles.expect_running()?;
            let run = self.conveyor.latest_run(job_id).await?;
            self.reads += 1;
            if is_there(&run)? {
                return Ok(());
            }
            let (total, completed) = (run.stats.total, run.stats.completed);
            ensure!(
                Instant::now() < self.deadline,
                "the deadline passed with {completed} of {total} rows completed, and {} are wanted",
                self.tasks
            );
            sleep(LOOK_EVERY).await;
        }
    }
}

fn is_drained(run: &Run, tasks: u64) -> anyhow::Result<bool> {
    expect_alive(run)?;
    Ok(u64::from(run.stats.completed) == tasks)
}

fn is_completed(run: &Run, tasks: u64) -> anyhow::Result<bool> {
    expect_alive(run)?;
    let failed = run.stats.failed;
    // Retries would be in the bill.
    ensure!(failed == 0, "{failed} of {tasks} tasks failed");
    Ok(run.status == RunStatus::Completed)
}

/// Only a job that goes through measures anything.
fn expect_alive(run: &Run) -> anyhow::Result<()> {
    let alive = [RunStatus::Pending, RunStatus::Running, RunStatus::Completed];
    ensure!(
        alive.iter().any(|status| run.status == *status),
        "the run ended as {}: {}",
        run.status,
        reason(run)
    );
    Ok(())
}

/// Waits until a role says that it has deleted a queue: there is only the one of our run.
async fn queue_is_gone(roles: &mut Roles, deleted_before: u64) -> anyhow::Result<bool> {
    let deadline = Instant::now() + QUEUE_GONE_WITHIN;
    while usage_of(roles).await?.queues_deleted == deleted_before {
        if Instant::now() >= deadline {
            eprintln!("the queue of the run was not deleted within {QUEUE_GONE_WITHIN:?}");
            return Ok(false);
        }
        sleep(LOOK_EVERY).await;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client;

    fn run(status: &str, ingest_status: Option<&str>, completed: u64) -> Run {
        client::run(status, ingest_status, 10, completed, 0)
    }

    #[test]
    fn a_phase_ends_when_all_tasks_have_passed_it() {
        assert!(!is_ingested(&run("running", Some("pending"), 0), 10).unwrap());
        assert!(is_ingested(&run("running", Some("done"), 0), 10).unwrap());
        assert!(is_ingested(&run("running", None, 0), 10).unwrap());
        assert!(is_ingested(&run("running", Some("done"), 0), 11).is_err());
        assert!(is_ingested(&run("running", Some("failed"), 0), 10).is_err());
        assert!(!is_drained(&run("running", None, 9), 10).unwrap());
        assert!(is_drained(&run("running", None, 10), 10).unwrap());
        assert!(!is_completed(&run("running", None, 10), 10).unwrap());
        assert!(is_completed(&run("completed", None, 10), 10).unwrap());
    }

    #[test]
    fn a_run_that_fails_is_no_bill() {
        assert!(is_drained(&run("failed", None, 3), 10).unwrap_err().to_string().contains("ended as failed"));
        let mut unlucky = run("completed", None, 10);
        unlucky.stats.failed = 2;
        assert!(is_completed(&unlucky, 10).unwrap_err().to_string().contains("2 of 10 tasks failed"));
    }
}
