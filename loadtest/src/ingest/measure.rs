//! One list through Conveyor, timed: upload, submit, and the wait until it is ingested.

use crate::client::{Conveyor, ResultRow, Run};
use crate::latency::Summary;
use crate::list::{self, List};
use anyhow::{bail, ensure};
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// The drain has to stay out of the way: one task at a time, at a gateway that does not answer.
const MAX_INFLIGHT: u32 = 1;
const READ_EVERY: Duration = Duration::from_millis(20);
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
const RESULTS_LIMIT: u32 = 1000;

#[derive(Debug)]
pub struct Measured {
    pub job_id: String,
    pub upload: Duration,
    pub submit: Duration,
    /// From the answer to the submit until the run says that it has all rows.
    pub ingest: Duration,
    pub total: u64,
    pub status_reads: Summary,
}

pub async fn ingest(conveyor: &Conveyor, list: &List, deadline: Instant) -> anyhow::Result<Measured> {
    let slot = conveyor.stage_csv().await?;
    let begin = Instant::now();
    conveyor.upload(&slot.upload, &list.path, deadline.saturating_duration_since(begin)).await?;
    let upload = begin.elapsed();
    eprintln!("uploaded {} bytes in {:.2} s", list.bytes, upload.as_secs_f64());

    let begin = Instant::now();
    let submitted = conveyor.submit_staged(&slot.file_input_id, MAX_INFLIGHT).await?;
    let submit = begin.elapsed();
    let (ingest, total, status_reads) = watch(conveyor, &submitted.job_id, list.rows, deadline).await?;
    eprintln!("ingested {total} rows in {:.2} s", ingest.as_secs_f64());
    Ok(Measured { job_id: submitted.job_id, upload, submit, ingest, total, status_reads })
}

/// Reads the status again and again, on one connection, until the list is ingested.
async fn watch(
    conveyor: &Conveyor,
    job_id: &str,
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
        let total = run.stats.total;
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
    let total = run.stats.total;
    if !matches!(run.status.as_str(), "running" | "pending" | "completed") {
        let reason = run.failure_reason.as_deref().unwrap_or("no reason given");
        let detail = run.failure_detail.as_deref().unwrap_or_default();
        bail!("the run is {} with {total} of {rows} rows: {reason} {detail}", run.status);
    }
    match run.ingest_status.as_deref() {
        Some("pending") => {
            ensure!(total <= rows, "{total} rows are counted, and the list has {rows}");
            Ok(false)
        }
        // A short list may be taken at once, like an inline one, and then there is no such status.
        Some("done") | None => {
            ensure!(total == rows, "the run has {total} rows, and the list has {rows}");
            Ok(true)
        }
        Some(other) => bail!("the ingest is {other} with {total} of {rows} rows"),
    }
}

/// Reads every row back and compares it with the list.
pub async fn check_results(
    conveyor: &Conveyor,
    job_id: &str,
    rows: u64,
    deadline: Instant,
) -> anyhow::Result<()> {
    let mut check = Check::default();
    let mut cursor = None;
    loop {
        let page = conveyor.results(job_id, RESULTS_LIMIT, cursor.as_deref()).await?;
        ensure!(
            !page.results.is_empty() || page.next_cursor.is_none(),
            "an empty page promises another one after row {}",
            check.rows
        );
        page.results.into_iter().try_for_each(|row| check.take(row))?;
        if page.next_cursor.is_none() {
            break;
        }
        cursor = page.next_cursor;
        ensure!(Instant::now() < deadline, "the deadline passed with {} of {rows} rows checked", check.rows);
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
    last_task_id: String,
}

impl Check {
    fn take(&mut self, row: ResultRow) -> anyhow::Result<()> {
        let n = self.rows;
        ensure!(row.url == list::url(n), "row {n} has the URL {}, not {}", row.url, list::url(n));
        ensure!(
            row.external_id.as_ref().is_none_or(|id| *id == list::external_id(n)),
            "row {n} has the external id {:?}",
            row.external_id
        );
        ensure!(row.task_id > self.last_task_id, "the task id of row {n} is not after the one before");
        self.rows += 1;
        self.last_task_id = row.task_id;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::RunStats;

    fn judged(status: &str, ingest_status: Option<&str>, total: u64) -> Result<bool, String> {
        let run = Run {
            status: status.to_owned(),
            stats: RunStats { total, completed: 0, failed: 0 },
            ingest_status: ingest_status.map(str::to_owned),
            failure_reason: None,
            failure_detail: None,
        };
        is_ingested(&run, 10).map_err(|error| error.to_string())
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
        let row = |n: u64, task_id: &str| ResultRow {
            task_id: task_id.to_owned(),
            url: list::url(n),
            external_id: Some(list::external_id(n)),
        };
        let mut check = Check::default();
        assert!(check.take(row(0, "00")).is_ok() && check.take(row(1, "01")).is_ok());
        assert!(check.take(row(3, "02")).unwrap_err().to_string().contains("row 2 has the URL"));
        assert!(check.take(row(2, "01")).unwrap_err().to_string().contains("task id"));
        assert!(check.take(ResultRow { external_id: Some("x".to_owned()), ..row(2, "02") }).is_err());
        assert_eq!(check.rows, 2);
    }
}
