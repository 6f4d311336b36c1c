//! The tasks of an earlier run becoming those of this one, chunk by chunk (SPEC 6.19).

use crate::attempt::{End, Step, Trouble, Work};
use crate::read::{commit_rows, count};
use conveyor_domain::ingest::list::Position;
use conveyor_domain::job::rerun::inherited_counts;
use conveyor_domain::job::retention::rows_are_over;
use conveyor_domain::{IngestEvent, ListFault, Replay, RunStatus, TaskId, limits};
use conveyor_store::clock_watch;
use conveyor_store::port::{Appended, RunKey, RunView, StatusFilter, TasksQuery};
use tokio_util::sync::CancellationToken;

/// From where the log is to the end of the earlier run. The last event is `total_set`.
pub async fn replay(
    work: &mut Work<'_>,
    earlier: &Replay,
    stop: &CancellationToken,
) -> Result<Step, Trouble> {
    let source = RunKey { job: work.key.job, run: earlier.run };
    loop {
        if stop.is_cancelled() {
            return Ok(Step::End(End::Stopped));
        }
        let next = work.state.next;
        // Ids are the same in both runs, and sort by index.
        let after = next.index.checked_sub(1).map(|last| TaskId::of(work.ingest.run.id_seed, last));
        let query = TasksQuery {
            key: source,
            filter: StatusFilter::All,
            after,
            limit: work.ingester.config.chunk_rows,
            max_bytes: limits::CHUNK_MAX_BYTES,
        };
        let store = &work.ingester.backend.store;
        let tasks = store.tasks(query).await?;
        let Some(last) = tasks.last().map(|task| task.id.index()) else { break };
        let tasks = tasks.into_iter().map(|task| earlier.replayed(task)).collect();
        let tasks = store.fix_replayed(work.key, tasks, work.ingester.clock.now()).await?;
        let rows = count(tasks.len())?;
        let event = IngestEvent::ChunkCommitted {
            chunk: work.state.chunks,
            rows,
            rejected: 0,
            next: Position { index: last + 1, ..next },
            report: None,
            inherited: inherited_counts(&tasks),
            unknown: Default::default(),
        };
        let appended = commit_rows(work, event, Vec::new(), tasks).await?;
        if appended != Appended::Done {
            return Ok(Step::Appended(appended));
        }
        metrics::counter!("conveyor_ingest_rows_total", "outcome" => "accepted").increment(rows.into());
    }
    let total = work.state.accepted;
    if total == 0 {
        return Err(fault(ListFault::NoValidRows, "the run that it replays has no tasks any more"));
    }
    if !is_whole(work, source, total).await? {
        return Err(fault(ListFault::SourceChanged, "tasks of the run that it replays are no longer kept"));
    }
    Ok(Step::Appended(work.append(IngestEvent::TotalSet { total }).await?))
}

fn fault(fault: ListFault, detail: &str) -> Trouble {
    Trouble::List { fault, detail: detail.to_owned(), line: None, report: None, rejected: 0 }
}

/// Whether that was all of the earlier run, now that all there was is read. Rows go by age, and a list that became shorter
/// while it was read must not pass for the whole one.
async fn is_whole(work: &Work<'_>, source: RunKey, accepted: u32) -> Result<bool, Trouble> {
    let store = &work.ingester.backend.store;
    if work.ingest.job.spec.template_id() == Some(source.run) {
        // Its rows stay for as long as the job does.
        return Ok(true);
    }
    let Some(RunView { run, .. }) = store.run(source.job, source.run).await? else { return Ok(false) };
    let now = work.ingester.clock.now();
    let now = clock_watch::judged_at(store.as_ref(), rows_are_over(&run, now), now).await?;
    let gone = run.status == RunStatus::Deleted || rows_are_over(&run, now);
    Ok(!gone && run.total == accepted)
}
