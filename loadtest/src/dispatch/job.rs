//! A job of an experiment, submitted and watched.

use super::system::System;
use crate::client::{Conveyor, reason, send};
use crate::list::{self, List};
use crate::round;
use anyhow::{bail, ensure};
use conveyor_client::wire::Run;
use conveyor_client::{JobId, RunStatus};
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Up to so many tasks come with the request.
const INLINE_TASKS_MAX: u64 = 9_999;
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(300);

pub fn urls(tasks: u64) -> Vec<String> {
    (0..tasks).map(list::url).collect()
}

/// Submits a job of so many tasks, in the request or as a list. Returns its id, and where the list was sent.
pub async fn submit(
    conveyor: &Conveyor,
    tasks: u64,
    max_inflight: u32,
    scratch: &Path,
) -> anyhow::Result<(JobId, Option<String>)> {
    if tasks <= INLINE_TASKS_MAX {
        let submitted = conveyor.submit(&urls(tasks), max_inflight).await?;
        let accepted = submitted.accepted_tasks as u64;
        ensure!(accepted == tasks, "{accepted} of {tasks} tasks were accepted");
        return Ok((submitted.job_id, None));
    }
    let list = List::write(scratch, tasks).await?;
    let upload = conveyor.stage_csv(&list.path).await?;
    let target = upload.target().map(str::to_owned);
    let id = send(upload, UPLOAD_TIMEOUT).await?;
    Ok((conveyor.submit_staged(id, max_inflight).await?.job_id, target))
}

/// Looks at the job until it is completed or the deadline passes, and says how it was then.
pub async fn watch(
    system: &mut System,
    conveyor: &Conveyor,
    job_id: JobId,
    look_every: Duration,
    deadline: Instant,
) -> anyhow::Result<Run> {
    loop {
        system.expect_running()?;
        let run = conveyor.latest_run(job_id).await?;
        if is_over(&run)? || Instant::now() >= deadline {
            return Ok(run);
        }
        sleep(look_every).await;
    }
}

/// Jobs that are timed one after another.
pub struct Timed<'a> {
    pub name: &'static str,
    pub caller: &'a Conveyor,
    pub tasks: u64,
    pub max_inflight: u32,
    pub look_every: Duration,
    pub deadline: Instant,
}

impl Timed<'_> {
    /// Seconds of so many jobs, each from its submit until it is completed.
    pub async fn seconds(&self, system: &mut System, jobs: u32) -> anyhow::Result<Vec<f64>> {
        let mut all = Vec::new();
        for _ in 0..jobs {
            let begin = Instant::now();
            let (job_id, _) = submit(self.caller, self.tasks, self.max_inflight, system.scratch()).await?;
            let run = watch(system, self.caller, job_id, self.look_every, self.deadline).await?;
            let seconds = begin.elapsed().as_secs_f64();
            ensure!(is_over(&run)?, "the deadline passed before a {} job was done", self.name);
            ensure!(run.stats.failed == 0, "{} tasks of a {} job failed", run.stats.failed, self.name);
            all.push(round::seconds(seconds));
        }
        Ok(all)
    }
}

/// A run that ends in any other way measures nothing.
pub fn is_over(run: &Run) -> anyhow::Result<bool> {
    match run.status.known() {
        Some(RunStatus::Pending | RunStatus::Running) => Ok(false),
        Some(RunStatus::Completed) => Ok(true),
        Some(RunStatus::Stopped | RunStatus::Failed | RunStatus::Deleted) | None => {
            bail!("the run is {}: {}", run.status, reason(run))
        }
    }
}

/// What is missing of a job that had to succeed as a whole.
pub fn missing(completed: u64, failed: u64, tasks: u64) -> Option<String> {
    let succeeded = completed.saturating_sub(failed);
    (succeeded != tasks).then(|| format!("{succeeded} of {tasks} tasks succeeded"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_task_is_completed_and_missing_all_the_same() {
        assert_eq!(missing(500, 0, 500), None);
        assert_eq!(missing(500, 1, 500).as_deref(), Some("499 of 500 tasks succeeded"));
        assert_eq!(missing(499, 0, 500).as_deref(), Some("499 of 500 tasks succeeded"));
    }
}
