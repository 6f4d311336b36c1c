//! One list through Conveyor, timed: upload, submit, and the wait until it is ingested.

use crate::client::{Conveyor, reason, send};
use crate::latency::Summary;
use crate::list::{self, List};
use anyhow::{bail, ensure};
use conveyor_client::wire::{Run, Task};
use conveyor_client::{IngestStatus, JobId, RunStatus, TaskId};
use futures::TryStreamExt;
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// The drain has to stay out of the way: one task at a time, at a gateway that does not answer.
const MAX_INFLIGHT: u32 = 1;
const READ_EVERY: Duration = Duration::from_millis(20);
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
const RESULTS_LIMIT: u32 = 1000;

#[derive(Debug)]
pub struct Measured {
    pub job_id: JobId,
    pub upload: Duration,
    pub submit: Duration,
    /// From the answer to the submit until the run says that it has all rows.
    pub ingest: Duration,
    pub total: u64,
    pub status_reads: Summary,
}

pub async fn ingest(conveyor: &Conveyor, list: &List, deadline: Instant) -> anyhow::Result<Measured> {
    let upload = conveyor.stage_csv(&list.path).await?;
    let begin = Instant::now();
    let id = send(upload, deadline.saturating_duration_since(begin)).await?;
    let upload = begin.elapsed();
    eprintln!("uploaded {} bytes in {:.2} s", list.bytes, upload.as_secs_f64());

    let begin = Instant::now();
    let submitted = conveyor.submit_staged(id, MAX_INFLIGHT).await?;
    let submit = begin.elapsed();
    let (ingest, total, status_reads) = watch(conveyor, submitted.job_id, list.rows, deadline).await?;
    eprintln!("ingested {total} rows in {:.2} s", ingest.as_secs_f64());
    Ok(Measured { job_id: submitted.job_id, upload, submit, ingest, total, status_reads })
}

/// Reads the status again and again, on one connection, until the list is ingested.
async fn watch(
    conveyor: &Conveyor,
    job_id: JobId,
    rows: u64,
    deadline: Instant,
) -> anyhow::Result<(Duration, u64, Summary)> {
    let begin = Instant::now();
    let mut latencies = Vec::new();
    let mut said = begin;
    let mut ticks = interval(READ_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let asked = Instant::now();
        let run = conveyor.latest_run(job_id).await?;
        let answered = Instant::now();
        latencies.push(answered - asked);
        let total = u64::from(run.stats.total);
        if is_ingested(&run, rows)? {
            return Ok((answered - begin, total, Summary::of(&latencies)));
        }
        ensure!(answered < deadline, "the deadline passed with {total} of {rows} rows ingested");
        if answered - said >= PROGRESS_EVERY {
            eprintln!("{total} of {rows} rows");
            said = answered;
        }
    }
}

/// Whether all rows are there. Anything but all of them measures nothing, so it ends the benchmark.
pub fn is_ingested(run: &Run, rows: u64) -> anyhow::Result<bool> {
    let total = u64::from(run.stats.total);
    let alive = [RunStatus::Running, RunStatus::Pending, RunStatus::Completed];
    if !alive.iter().any(|status| run.status == *status) {
        let detail = run.failure_detail.as_deref().unwrap_or_default();
        bail!("the run is {} with {total} of {rows} rows: {} {detail}", run.status, reason(run));
    }
    if run.is_ingesting() {
        ensure!(total <= rows, "{total} rows are counted, and the list has {rows}");
        return Ok(false);
    }
    // A short list may be taken at once, like an inline one, and then there is no such status.
    if let Some(other) = run.ingest_status.as_ref().filter(|status| **status != IngestStatus::Done) {
        bail!("the ingest is {other} with {total} of {rows} rows");
    }
    ensure!(total == rows, "the run has {total} rows, and the list has {rows}");
    Ok(true)
}

/// Reads every row back and compares it with the list.
pub async fn check_results(
    conveyor: &Conveyor,
    job_id: JobId,
    rows: u64,
    deadline: Instant,
) -> anyhow::Result<()> {
    let mut check = Check::default();
    let mut pages = pin!(conveyor.0.results(job_id).query("limit", RESULTS_LIMIT).pages());
    while let Some(page) = pages.try_next().await? {
        page.iter().try_for_each(|row| check.take(row.read()?))?;
        ensure!(
            check.rows == rows || Instant::now() < deadline,
            "the deadline passed with {} of {rows} rows checked",
            check.rows
        );
        if check.rows.is_multiple_of(100_000) {
            eprintln!("checked {} of {rows} rows", check.rows);
        }
    }
    ensure!(check.rows == rows, "{} rows are there, and the list has {rows}", check.rows);
    Ok(())
}

#[derive(Debug, Default)]
struct Check {
    rows: u64,
    last_task_id: Option<TaskId>,
}

impl Check {
    fn take(&mut self, row: Task) -> anyhow::Result<()> {
        let n = self.rows;
        ensure!(row.url == list::url(n), "row {n} has the URL {}, not {}", row.url, list::url(n));
        ensure!(
            row.external_id.as_ref().is_none_or(|id| *id == list::external_id(n)),
            "row {n} has the external id {:?}",
            row.external_id
        );
        ensure!(Some(row.task_id) > self.last_task_id, "the task id of row {n} is not after the one before");
        self.rows += 1;
        self.last_task_id = Some(row.task_id);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::run;
    use serde_json::json;

    fn judged(status: &str, ingest_status: Option<&str>, total: u64) -> Result<bool, String> {
        is_ingested(&run(status, ingest_status, total, 0, 0), 10).map_err(|error| error.to_string())
    }

    #[test]
    fn ingested_means_every_row() {
        assert_eq!(judged("running", Some("pending"), 3), Ok(false));
        assert_eq!(judged("running", Some("done"), 10), Ok(true));
        assert_eq!(judged("running", None, 10), Ok(true));
        assert!(judged("running", Some("done"), 9).unwrap_err().contains("9 rows"));
        assert!(judged("running", Some("pending"), 11).unwrap_err().contains("11 rows"));
        assert!(judged("running", Some("failed"), 3).is_err());
        assert!(judged("failed", Some("pending"), 3).unwrap_err().contains("the run is failed"));
    }

    #[test]
    fn rows_come_back_in_the_order_of_the_list() {
        let row = |n: u64, task: u32| -> Task {
            let at = "2026-11-16T05:00:15.912Z";
            let row = json!({"task_id": format!("{task:032x}"), "run_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "url": list::url(n),
                "external_id": list::external_id(n), "status": "pending", "created_at": at, "updated_at": at});
            serde_json::from_value(row).unwrap()
        };
        let mut check = Check::default();
        assert!(check.take(row(0, 0)).is_ok() && check.take(row(1, 1)).is_ok());
        assert!(check.take(row(3, 2)).unwrap_err().to_string().contains("row 2 has the URL"));
        assert!(check.take(row(2, 1)).unwrap_err().to_string().contains("task id"));
        assert!(check.take(Task { external_id: Some("x".to_owned()), ..row(2, 2) }).is_err());
        assert_eq!(check.rows, 2);
    }
}
