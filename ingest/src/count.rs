//! Passes that read every row before the first of them becomes a task: to know how many there are, and with
//! `on_invalid_rows: fail` so that a list with a bad row starts nothing.

use crate::attempt::{Trouble, Work};
use crate::chunk::Gathered;
use crate::read::{count, put_report, reader_at_next};
use crate::source::Reader;
use conveyor_domain::{ListFault, OnInvalidRows, RejectedRow, Trigger, limits};
use conveyor_store::admission::{Admission, NotAdmitted};
use tokio_util::sync::CancellationToken;

/// Rejected rows that are reported; all of them are counted.
const REPORTED_MAX: usize = 10_000;

/// What a list has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    pub records: u32,
    pub rows: u32,
}

/// Reads the list to its end, and makes sure that its caller may have so many tasks; `None` if it was asked to stop.
pub async fn count_all(
    work: &mut Work<'_>,
    opened: Option<Reader>,
    stop: &CancellationToken,
) -> Result<Option<Counted>, Trouble> {
    let counted = read_all(work, opened, stop).await?;
    if let Some(counted) = counted
        && !work.ingest.run.is_counted()
    {
        hold(work, counted.rows).await?;
    }
    Ok(counted)
}

async fn read_all(
    work: &mut Work<'_>,
    opened: Option<Reader>,
    stop: &CancellationToken,
) -> Result<Option<Counted>, Trouble> {
    let mut reader = reader_at_next(work, opened).await?;
    let (config, headers) = (work.config(), work.headers()?);
    // Otherwise each is reported with the chunk that it belongs to.
    let reported_max = match work.list()?.on_invalid_rows {
        OnInvalidRows::Fail => REPORTED_MAX,
        OnInvalidRows::Skip => 0,
    };
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
        reported.extend(gathered.rejected.drain(..).take(reported_max - reported.len()));
        if (rows + invalid) % limits::CHUNK_ROWS == 0 {
            if stop.is_cancelled() {
                return Ok(None);
            }
            tokio::task::yield_now().await;
        }
    }
    let records = rows + invalid;
    let Some(first) = reported.first() else { return Ok(Some(Counted { records, rows })) };
    let detail = format!("{invalid} of {records} rows are invalid; the first is {}", first.reason.as_str());
    let (fault, line) = (ListFault::InvalidRows, Some(first.line));
    let report = Some(put_report(work, &reported).await?);
    Err(Trouble::List { fault, detail, line, report, rejected: invalid })
}

/// Holds room for the rows among the tasks that their caller may have. A run of a schedule needs none (SPEC 6.24).
async fn hold(work: &Work<'_>, rows: u32) -> Result<(), Trouble> {
    let (ingester, ingest) = (work.ingester, &work.ingest);
    if ingest.run.doc.trigger == Trigger::Scheduled {
        return Ok(());
    }
    let admission = Admission {
        store: &*ingester.backend.store,
        clock: &*ingester.clock,
        entropy: &ingester.entropy,
        defaults: ingester.config.quotas,
    };
    match admission.hold_list(ingest.job.caller, ingest.job.id, rows).await {
        Ok(()) => Ok(()),
        Err(NotAdmitted::Exceeded(exceeded)) => {
            let (fault, detail) = (ListFault::QuotaExceeded, exceeded.to_string());
            Err(Trouble::List { fault, detail, line: None, report: None, rejected: 0 })
        }
        Err(busy @ NotAdmitted::Busy) => Err(Trouble::Passing(busy.to_string())),
        Err(NotAdmitted::Store(error)) => Err(error.into()),
    }
}
