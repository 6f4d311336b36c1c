//! How far a staged list is on its way to tasks: what its log amounts to.

use super::Time;
use conveyor_domain::ingest::Phase;
use conveyor_domain::{IngestEvent, IngestState, LoggedEvent, Origin, RunId, Timestamp, UnknownCounts};
use conveyor_wire as wire;
use conveyor_wire::IngestState as ListState;

/// `hidden`: the run that keeps the tasks of a scheduled job, which nobody can look at.
pub(crate) fn ingest(
    run: RunId,
    folded: &IngestState,
    log: &[LoggedEvent],
    hidden: Option<RunId>,
) -> wire::Ingest {
    let at = |is: fn(&IngestEvent) -> bool| {
        log.iter().rev().find(|logged| is(&logged.event)).map(|logged| logged.at)
    };
    let begins = |event: &IngestEvent| {
        matches!(event, IngestEvent::SourcePinned { .. } | IngestEvent::Replaying { .. })
    };
    let started = at(begins);
    let last_chunk = at(|event| matches!(event, IngestEvent::ChunkCommitted { .. }));
    let updated = log.last().map_or(Timestamp::default(), |logged| logged.at);
    let source = folded.list();
    let rerun_of = match &folded.origin {
        Origin::List(_) => None,
        Origin::Run(replay) => Some(replay.run).filter(|run| Some(*run) != hidden),
    };
    wire::Ingest {
        run_id: run,
        state: list_state(folded).into(),
        file_input_id: source.map(|source| source.upload),
        rerun_of,
        format: source.map(|source| wire::ListType::from(&source.spec).into()),
        compression: folded.opened.as_ref().map(|(compression, _)| (*compression).into()),
        size_bytes: source.map(|source| source.staged.size),
        sha256: source.and_then(|source| source.staged.sha256()).map(str::to_owned),
        on_invalid_rows: source.map(|source| source.on_invalid_rows.into()),
        // A list that was only checked has no chunk, but its bad rows were read.
        rows_read: folded.next.index.max(folded.accepted + folded.rejected),
        rows_accepted: folded.accepted,
        rows_rejected: folded.rejected,
        chunks: folded.chunks,
        bytes_read: folded.next.offset,
        rows_per_second: rate(folded.next.index, started, last_chunk),
        started_at: started.map(Time),
        updated_at: Time(updated),
        finished_at: folded.phase.is_over().then_some(Time(updated)),
        attempts_failed: folded.failures,
        last_error: folded.last_error.clone().filter(|_| folded.failures > 0),
        error: log.iter().find_map(|logged| fault_of(&logged.event)),
        warnings: warnings_of(&folded.unknown),
        more_warnings: Some(folded.unknown.more).filter(|more| *more > 0),
    }
}

/// Where a list is on its way.
pub(crate) fn list_state(folded: &IngestState) -> ListState {
    match folded.phase {
        Phase::Latched => ListState::Done,
        Phase::Cut => ListState::Cut,
        Phase::Failed => ListState::Failed,
        Phase::Reading | Phase::TotalSet if folded.dead_lettered => ListState::Stalled,
        Phase::Reading if folded.opened.is_none() && folded.chunks == 0 => ListState::Waiting,
        Phase::Reading | Phase::TotalSet => ListState::Reading,
    }
}

fn warnings_of(unknown: &UnknownCounts) -> Vec<wire::RowWarning> {
    let warning = |(field, rows): (&String, &u32)| wire::RowWarning {
        code: wire::WarningCode::UnknownField.into(),
        field: field.clone(),
        rows: *rows,
    };
    unknown.named.iter().map(warning).collect()
}

fn fault_of(event: &IngestEvent) -> Option<wire::Fault> {
    let IngestEvent::Failed { fault, detail, line, .. } = event else { return None };
    Some(wire::Fault { code: (*fault).into(), detail: detail.clone(), line: *line })
}

/// Rows a second from the beginning to the last chunk, to a tenth; nothing before time has passed.
fn rate(rows: u32, started: Option<Timestamp>, last: Option<Timestamp>) -> Option<f64> {
    let took = started?.until(last?).as_secs_f64();
    (took > 0.0).then(|| (f64::from(rows) / took * 10.0).round() / 10.0)
}
