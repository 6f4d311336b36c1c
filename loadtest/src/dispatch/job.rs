//! A job of an experiment, submitted and watched.

use super::system::System;
use crate::client::{Conveyor, Run};
use crate::list::{self, List};
use anyhow::{bail, ensure};
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Up to so many tasks come with the request.
const INLINE_TASKS_MAX: u64 = 9_999;
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(300);

pub fn urls(tasks: u64) -> Vec<String> {
    (0..tasks).map(list::url).collect()
}

/// Submits a job of so many tasks, in the request or as a list, and returns its id.
pub async fn submit(
    conveyor: &Conveyor,
    tasks: u64,
    max_inflight: u32,
    scratch: &Path,
) -> anyhow::Result<String> {
    if tasks <= INLINE_TASKS_MAX {
        let submitted = conveyor.submit(&urls(tasks), max_inflight).await?;
        let accepted = submitted.accepted_tasks;
        ensure!(accepted == tasks, "{accepted} of {tasks} tasks were accepted");
        return Ok(submitted.job_id);
    }
    let list = List::write(scratch, tasks).await?;
    let slot = conveyor.stage_csv().await?;
    conveyor.upload(&slot.upload, &list.path, UPLOAD_TIMEOUT).await?;
    Ok(conveyor.submit_staged(&slot.file_input_id, max_inflight).await?.job_id)
}

/// Looks at the job until it is completed or the deadline passes, and says how it was then.
pub async fn watch(
    system: &mut System,
    conveyor: &Conveyor,
    job_id: &str,
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

/// A run that ends in any other way measures nothing.
pub fn is_over(run: &Run) -> anyhow::Result<bool> {
    match run.status.as_str() {
        "pending" | "running" => Ok(false),
        "completed" => Ok(true),
        other => bail!("the run is {other}: {}", run.failure_reason.as_deref().unwrap_or("no reason given")),
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
