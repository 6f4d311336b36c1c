//! How far a staged list is on its way to tasks: what its log amounts to.

use super::Time;
use super::input::{LIST_TYPES, format_of};
use conveyor_domain::ingest::Phase;
use conveyor_domain::{
    Compression, IngestEvent, IngestState, ListFault, LoggedEvent, OnInvalidRows, Origin, RunId, Timestamp,
    UnknownCounts, UploadId,
};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "IngestState")]
pub(crate) enum ListState {
    /// Nobody has opened the list yet.
    Waiting,
    Reading,
    Done,
    /// The run ended first.
    Cut,
    Failed,
    /// Nobody tries any more until an operator says so.
    Stalled,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct IngestJson<'a> {
    run_id: RunId,
    state: ListState,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_input_id: Option<UploadId>,
    /// The run whose tasks are taken over.
    #[serde(skip_serializing_if = "Option::is_none")]
    rerun_of: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = LIST_TYPES))]
    format: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compression: Option<Compression>,
    /// As it was uploaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    size_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_invalid_rows: Option<OnInvalidRows>,
    rows_read: u32,
    rows_accepted: u32,
    rows_rejected: u32,
    chunks: u32,
    /// Of the expanded list.
    bytes_read: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Time>,
    updated_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<Time>,
    /// Since the last progress, and what the last of them said.
    attempts_failed: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<FaultJson<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<RowWarningJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    more_warnings: Option<u32>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct RowWarningJson<'a> {
    #[schemars(extend("enum" = ["unknown_field"]))]
    code: &'static str,
    field: &'a str,
    rows: u32,
}

#[derive(Debug, Serialize, JsonSchema)]
struct FaultJson<'a> {
    code: ListFault,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
}

impl<'a> IngestJson<'a> {
    /// `hidden`: the run that keeps the tasks of a scheduled job, which nobody can look at.
    pub fn new(
        run: RunId,
        folded: &'a IngestState,
        log: &'a [LoggedEvent],
        hidden: Option<RunId>,
    ) -> IngestJson<'a> {
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
        IngestJson {
            run_id: run,
            state: state_of(folded),
            file_input_id: source.map(|source| source.upload),
            rerun_of,
            format: source.map(|source| format_of(&source.spec)),
            compression: folded.opened.as_ref().map(|(compression, _)| *compression),
            size_bytes: source.map(|source| source.staged.size),
            sha256: source.and_then(|source| source.staged.sha256()),
            on_invalid_rows: source.map(|source| source.on_invalid_rows),
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
            last_error: folded.last_error.as_deref().filter(|_| folded.failures > 0),
            error: log.iter().find_map(|logged| fault_of(&logged.event)),
            warnings: warnings_of(&folded.unknown),
            more_warnings: Some(folded.unknown.more).filter(|more| *more > 0),
        }
    }
}

/// Where a list is on its way.
pub(crate) fn state_of(folded: &IngestState) -> ListState {
    match folded.phase {
        Phase::Latched => ListState::Done,
        Phase::Cut => ListState::Cut,
        Phase::Failed => ListState::Failed,
        Phase::Reading | Phase::TotalSet if folded.dead_lettered => ListState::Stalled,
        Phase::Reading if folded.opened.is_none() && folded.chunks == 0 => ListState::Waiting,
        Phase::Reading | Phase::TotalSet => ListState::Reading,
    }
}

fn warnings_of(unknown: &UnknownCounts) -> Vec<RowWarningJson<'_>> {
    let named = unknown.named.iter();
    named.map(|(field, rows)| RowWarningJson { code: "unknown_field", field, rows: *rows }).collect()
}

fn fault_of(event: &IngestEvent) -> Option<FaultJson<'_>> {
    match event {
        IngestEvent::Failed { fault, detail, line, .. } => {
            Some(FaultJson { code: *fault, detail, line: *line })
        }
        IngestEvent::Accepted { .. }
        | IngestEvent::Replaying { .. }
        | IngestEvent::SourcePinned { .. }
        | IngestEvent::Validated { .. }
        | IngestEvent::Counted { .. }
        | IngestEvent::ChunkCommitted { .. }
        | IngestEvent::TotalSet { .. }
        | IngestEvent::Latched
        | IngestEvent::Cut { .. }
        | IngestEvent::AttemptFailed { .. }
        | IngestEvent::Resent
        | IngestEvent::Redriven => None,
    }
}

/// Rows a second from the beginning to the last chunk, to a tenth; nothing before time has passed.
fn rate(rows: u32, started: Option<Timestamp>, last: Option<Timestamp>) -> Option<f64> {
    let took = started?.until(last?).as_secs_f64();
    (took > 0.0).then(|| (f64::from(rows) / took * 10.0).round() / 10.0)
}
