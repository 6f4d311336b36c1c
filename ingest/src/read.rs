//! Reading a list and committing it chunk by chunk: one is decoded and checked while the one before it is written.

use crate::attempt::{End, Step, Trouble, Work};
use crate::chunk::{Gathered, Headers};
use crate::source::{self, Reader};
use crate::{IngestConfig, source::fault};
use conveyor_domain::{Counts, IngestEvent, JobSpec, ListFault, RejectedRow, ReplayedTask, TaskInput};
use conveyor_lists::ListError;
use conveyor_store::port::{Appended, BlobKey, Chunk};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Chunks that wait to be written: their memory is the price, a writer that never waits the gain.
const CHUNKS_AHEAD: usize = 1;
/// Decoding does not wait for anything while its buffer lasts; others want the thread too.
const RECORDS_AT_ONCE: u32 = 256;

/// From where the log is to the end of the list. The last event is `total_set`.
pub async fn read(
    work: &mut Work<'_>,
    opened: Option<Reader>,
    stop: &CancellationToken,
) -> Result<Step, Trouble> {
    let reader = reader_at_next(work, opened).await?;
    let (send, mut receive) = mpsc::channel(CHUNKS_AHEAD);
    let (spec, config) = (work.ingest.job.spec.clone(), work.config());
    // In a set: whichever way this ends, the decoding ends with it.
    let mut decoding = JoinSet::new();
    decoding.spawn(decode(reader, spec, config, work.headers()?, send));
    while let Some(gathered) = receive.recv().await {
        let appended = commit(work, gathered?).await?;
        if appended != Appended::Done {
            return Ok(Step::Appended(appended));
        }
        if stop.is_cancelled() {
            return Ok(Step::End(End::Stopped));
        }
    }
    if let Some(Err(panicked)) = decoding.join_next().await {
        return Err(Trouble::Passing(format!("the decoder ended early: {panicked}")));
    }
    if work.state.accepted == 0 {
        let detail = format!("none of its {} records is a task", work.state.rejected);
        return Err(fault(ListFault::NoValidRows, &detail).into());
    }
    let total = work.state.accepted;
    Ok(Step::Appended(work.append(IngestEvent::TotalSet { total }).await?))
}

/// The reader that was just opened, if reading starts there.
pub async fn reader_at_next(work: &Work<'_>, opened: Option<Reader>) -> Result<Reader, Trouble> {
    let (ingester, state) = (work.ingester, &work.state);
    match (opened, &state.opened) {
        (Some(reader), _) if state.chunks == 0 => Ok(reader),
        (_, Some(opened)) => {
            let (backend, config) = (&ingester.backend, &ingester.config);
            Ok(source::reopen(backend, work.list()?, config, opened.clone(), state.next).await?)
        }
        (_, None) => Err(Trouble::Passing("the source was not opened".to_owned())),
    }
}

/// Decodes to the end, or to the first error. The channel closes behind the last chunk.
async fn decode(
    mut reader: Reader,
    spec: Arc<JobSpec>,
    config: IngestConfig,
    headers: Headers,
    send: mpsc::Sender<Result<Gathered, ListError>>,
) {
    let mut gathered = Gathered::default();
    loop {
        let record = match reader.next().await {
            Ok(Some(record)) => record,
            Ok(None) => break,
            Err(error) => {
                // What was read of the chunk is not worth anything: it is read again, or never.
                let _ = send.send(Err(error)).await;
                return;
            }
        };
        if record.index >= config.run_tasks_max {
            let detail = format!("more than {} records", config.run_tasks_max);
            let too_many =
                ListError::Fault { fault: ListFault::TooManyRows, line: Some(record.line), detail };
            let _ = send.send(Err(too_many)).await;
            return;
        }
        if record.index % RECORDS_AT_ONCE == 0 {
            tokio::task::yield_now().await;
        }
        gathered.add(record, &spec.params, &config, &headers);
        if gathered.is_full(&config) {
            gathered.next = reader.position();
            if send.send(Ok(std::mem::take(&mut gathered))).await.is_err() {
                // Nobody wants it any more.
                return;
            }
        }
    }
    if gathered.records() > 0 {
        gathered.next = reader.position();
        let _ = send.send(Ok(gathered)).await;
    }
}

async fn commit(work: &mut Work<'_>, gathered: Gathered) -> Result<Appended, Trouble> {
    let started = Instant::now();
    let Gathered { rows, rejected, unknown, next, .. } = gathered;
    let (accepted, refused) = (count(rows.len())?, count(rejected.len())?);
    let number = work.state.chunks;
    let report = match rejected.is_empty() {
        true => None,
        false => Some(put_report(work, &rejected).await?),
    };
    let named = report.clone();
    let event = IngestEvent::ChunkCommitted {
        chunk: number,
        rows: accepted,
        rejected: refused,
        next,
        report,
        inherited: Counts::default(),
        unknown,
    };
    let appended = commit_rows(work, event, rows, Vec::new()).await?;
    if appended == Appended::Done {
        metrics::counter!("conveyor_ingest_rows_total", "outcome" => "accepted").increment(accepted.into());
        metrics::counter!("conveyor_ingest_rows_total", "outcome" => "rejected").increment(refused.into());
        metrics::histogram!("conveyor_ingest_chunk_seconds").record(started.elapsed().as_secs_f64());
    }
    forget_report(work, named, appended).await;
    Ok(appended)
}

/// Commits rows and the event that says that they are there; the state moves with it if it was won.
pub async fn commit_rows(
    work: &mut Work<'_>,
    event: IngestEvent,
    rows: Vec<(u32, TaskInput)>,
    replayed: Vec<ReplayedTask>,
) -> Result<Appended, Trouble> {
    let entry = work.state.entry(event)?;
    let (logged, event) = (entry.number(), entry.event().clone());
    let chunk = Chunk { rows, replayed, entry };
    let (store, now) = (&work.ingester.backend.store, work.ingester.clock.now());
    let appended = store.commit_chunk(work.key, chunk, now).await?;
    if appended == Appended::Done {
        work.state.apply(logged, &event)?;
    }
    Ok(appended)
}

/// A report that no event names is nobody's. One that stays goes with its job.
pub async fn forget_report(work: &Work<'_>, report: Option<String>, appended: Appended) {
    let Some(Ok(key)) = report.filter(|_| appended != Appended::Done).map(|report| report.parse()) else {
        return;
    };
    if let Err(error) = work.ingester.backend.blobs.delete(&key).await {
        tracing::warn!(%error, "a report of rejected rows stays behind");
    }
}

/// Under a name that nobody else writes: the event that names it decides whose report counts.
pub async fn put_report(work: &Work<'_>, rejected: &[RejectedRow]) -> Result<String, Trouble> {
    let text = RejectedRow::report(rejected);
    let n = work.ingester.reports.fetch_add(1, Ordering::Relaxed);
    let key = BlobKey::rejected(work.key.job, work.key.run, work.ingester.id, n);
    work.ingester.backend.blobs.put(&key, text.into()).await?;
    Ok(key.to_string())
}

pub fn count(n: usize) -> Result<u32, Trouble> {
    u32::try_from(n).map_err(|e| Trouble::Passing(e.to_string()))
}
