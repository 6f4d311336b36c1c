//! `on_invalid_rows: fail`: every row is checked before the first of them becomes a task, so that a list with a bad row
//! starts nothing.

use crate::attempt::{Trouble, Work};
use crate::chunk::Gathered;
use crate::read::{count, put_report, reader_at_next};
use crate::source::Reader;
use conveyor_domain::limits;
use conveyor_domain::list::{ListFault, RejectedRow};
use tokio_util::sync::CancellationToken;

/// Rejected rows that are reported; all of them are counted.
const REPORTED_MAX: usize = 10_000;

/// How many rows the list has, all valid; `None` if it was asked to stop.
pub async fn validate(
    work: &mut Work<'_>,
    opened: Option<Reader>,
    stop: &CancellationToken,
) -> Result<Option<u32>, Trouble> {
    let mut reader = reader_at_next(work, opened).await?;
    let (config, headers) = (work.config(), work.headers()?);
    let (mut rows, mut invalid) = (0_u32, 0_u32);
    let mut reported: Vec<RejectedRow> = Vec::new();
    let mut gathered = Gathered::default();
    while let Some(record) = reader.next().await? {
        if record.index >= config.run_tasks_max {
            let detail = format!("more than {} records", config.run_tasks_max);
            let (fault, line) = (ListFault::TooManyRows, Some(record.line));
            return Err(Trouble::List { fault, detail, line, report: None, rejected: 0 });
        }
        gathered.add(record, &work.ingest.job.spec.params, &config, &headers);
        rows += count(gathered.rows.len())?;
        invalid += count(gathered.rejected.len())?;
        gathered.rows.clear();
        reported.extend(gathered.rejected.drain(..).take(REPORTED_MAX - reported.len()));
        if (rows + invalid) % limits::CHUNK_ROWS == 0 {
            if stop.is_cancelled() {
                return Ok(None);
            }
            tokio::task::yield_now().await;
        }
    }
    let Some(first) = reported.first() else { return Ok(Some(rows)) };
    let detail =
        format!("{invalid} of {} rows are invalid; the first is {}", rows + invalid, first.reason.as_str());
    let (fault, line) = (ListFault::InvalidRows, Some(first.line));
    let report = Some(put_report(work, &reported).await?);
    Err(Trouble::List { fault, detail, line, report, rejected: invalid })
}
