//! The log of one run's ingest, and its fold (SPEC 6.11). The log is the only record of progress: whoever goes on with an
//! ingest reads the log, folds it, and takes the next step.

pub mod estimate;
pub mod list;
pub mod list_count;
pub mod upload;

use crate::ingest::list::{Layout, Position};
use crate::job::run::Expected;
use crate::{
    Compression, Counts, IngestStep, ListCount, ListFault, ListSpec, OnInvalidRows, ParamPolicy, Params,
    Replay, RowCount, Run, Staged, TaskRules, Timestamp, UnknownCounts, UnknownFields, UploadId,
};
use serde::{Deserialize, Serialize};

/// A list as it was accepted: the bytes, pinned, and how they are to be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    pub upload: UploadId,
    pub staged: Staged,
    pub spec: ListSpec,
    #[serde(default)]
    pub on_invalid_rows: OnInvalidRows,
    /// Which parameters its rows may have, as it was when the list was accepted: whoever reads it, with whatever
    /// configuration, must find the same rows valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub param_policy: Option<ParamPolicy>,
    #[serde(default, skip_serializing_if = "UnknownFields::are_refused")]
    pub unknown_fields: UnknownFields,
}

impl Source {
    /// What its rows are checked by. `own`: which parameters there may be where the list does not say.
    pub fn rules(&self, own: ParamPolicy) -> TaskRules {
        TaskRules { params: self.param_policy.unwrap_or(own), unknown_fields: self.unknown_fields }
    }
}

impl Source {
    /// Its records, if all of them were counted by what its rows are checked by.
    pub fn counted(&self) -> Option<&RowCount> {
        let fits = |rows: &RowCount| {
            self.param_policy == Some(rows.policy)
                && (rows.unknown == 0 || !self.unknown_fields.are_refused())
        };
        match self.staged.count.as_deref() {
            Some(ListCount::Rows(rows)) if fits(rows) => Some(rows),
            Some(ListCount::Rows(_) | ListCount::Fault { .. }) | None => None,
        }
    }

    /// How many tasks a job with these parameters gets of it, as far as its count says.
    pub fn expected(&self, job: &Params) -> Option<Expected> {
        self.counted().map(|rows| rows.expected(job))
    }
}

/// One step of an ingest. Stored as JSON: new fields need a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum IngestEvent {
    /// The job was accepted with this list.
    Accepted {
        source: Source,
    },
    /// The run was begun with the tasks of an earlier one.
    Replaying {
        replay: Replay,
    },
    /// The pinned bytes were opened; this is what they turned out to be.
    SourcePinned {
        compression: Compression,
        layout: Layout,
    },
    /// Every row was checked before any of them was written (`on_invalid_rows: fail`).
    Validated {
        rows: u32,
    },
    /// Every record was read before any of them was written: nobody knew how many rows there are.
    Counted {
        records: u32,
        rows: u32,
    },
    /// Rows and their refs are durable up to `next`.
    ChunkCommitted {
        chunk: u32,
        rows: u32,
        rejected: u32,
        next: Position,
        /// Where the rejected rows are reported, if there are any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        report: Option<String>,
        /// Rows, among these, that an earlier run did.
        #[serde(default, skip_serializing_if = "Counts::is_zero")]
        inherited: Counts,
        /// Of rows that are tasks all the same.
        #[serde(default, skip_serializing_if = "UnknownCounts::is_empty")]
        unknown: UnknownCounts,
    },
    TotalSet {
        total: u32,
    },
    /// No more tasks come from this list.
    Latched,
    /// The run ended while its list was read: what was written is all that there will be.
    Cut {
        total: u32,
    },
    /// The list cannot be taken.
    Failed {
        fault: ListFault,
        detail: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        line: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        report: Option<String>,
        #[serde(default)]
        rejected: u32,
    },
    /// A try came to nothing, for a reason that may pass. After the last one its message is a dead letter.
    AttemptFailed {
        error: String,
        dead_lettered: bool,
    },
    /// Nothing had happened for long: the control message was sent again.
    Resent,
    /// An operator sent a dead letter again.
    Redriven,
}

impl IngestEvent {
    pub fn name(&self) -> &'static str {
        match self {
            IngestEvent::Accepted { .. } => "accepted",
            IngestEvent::Replaying { .. } => "replaying",
            IngestEvent::SourcePinned { .. } => "source_pinned",
            IngestEvent::Validated { .. } => "validated",
            IngestEvent::Counted { .. } => "counted",
            IngestEvent::ChunkCommitted { .. } => "chunk_committed",
            IngestEvent::TotalSet { .. } => "total_set",
            IngestEvent::Latched => "latched",
            IngestEvent::Cut { .. } => "cut",
            IngestEvent::Failed { .. } => "failed",
            IngestEvent::AttemptFailed { .. } => "attempt_failed",
            IngestEvent::Resent => "resent",
            IngestEvent::Redriven => "redriven",
        }
    }
}

/// An event in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedEvent {
    /// From 0, without gaps.
    pub number: u32,
    pub at: Timestamp,
    pub event: IngestEvent,
}

/// An event that fits behind a log, under its number, with what it does to the run. Made only by [`IngestState::entry`],
/// so a store needs to check no more than that the number is the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    number: u32,
    event: IngestEvent,
    effect: Option<IngestStep>,
}

impl Entry {
    pub fn number(&self) -> u32 {
        self.number
    }

    pub fn event(&self) -> &IngestEvent {
        &self.event
    }

    pub fn effect(&self) -> Option<&IngestStep> {
        self.effect.as_ref()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Reading,
    TotalSet,
    Latched,
    Cut,
    Failed,
}

impl Phase {
    pub fn is_over(self) -> bool {
        match self {
            Phase::Reading | Phase::TotalSet => false,
            Phase::Latched | Phase::Cut | Phase::Failed => true,
        }
    }
}

/// The log is not one that an ingest can have written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ingest log is not in order at event {number}: {event}")]
pub struct LogOutOfOrder {
    pub number: u32,
    pub event: &'static str,
}

/// What tasks are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    List(Box<Source>),
    Run(Replay),
}

/// What a log amounts to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngestState {
    /// Events so far: the number that the next one gets.
    pub events: u32,
    pub origin: Origin,
    pub opened: Option<(Compression, Layout)>,
    pub validated: bool,
    pub counted: bool,
    /// Where the next chunk begins.
    pub next: Position,
    pub chunks: u32,
    pub accepted: u32,
    pub rejected: u32,
    /// Of those accepted, what an earlier run did.
    pub inherited: Counts,
    /// Fields of rows that were ignored.
    pub unknown: UnknownCounts,
    pub total: Option<u32>,
    pub phase: Phase,
    /// Every record was read, whatever came after that.
    pub read_to_end: bool,
    /// What it failed with.
    pub fault: Option<ListFault>,
    /// Tries that came to nothing since the last progress, and what the last one said.
    pub failures: u32,
    pub last_error: Option<String>,
    pub dead_lettered: bool,
    /// Control messages sent again since the last progress.
    pub resends: u32,
    /// Dead letters sent again since the last progress.
    pub redrives: u32,
    /// How many events there were at the last of those, itself included.
    pub redriven: u32,
    /// How many events there were at the last one that was progress, itself included.
    pub progress: u32,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Open the pinned bytes and find out what they are.
    Open,
    /// Check every row, write none.
    Validate,
    /// Read every record to know how many rows there are, write none.
    Count,
    Read {
        from: Position,
    },
    Latch,
    /// The run ended: settle for what was written.
    Cut {
        total: u32,
    },
    Nothing,
}

impl IngestState {
    pub fn fold(log: &[LoggedEvent]) -> Result<IngestState, LogOutOfOrder> {
        let Some((first, rest)) = log.split_first() else {
            return Err(LogOutOfOrder { number: 0, event: "none" });
        };
        let mut state = match &first.event {
            IngestEvent::Accepted { source } => IngestState::accepted(source.clone()),
            IngestEvent::Replaying { replay } => IngestState::replaying(replay.clone()),
            other => return Err(LogOutOfOrder { number: first.number, event: other.name() }),
        };
        for logged in rest {
            state.apply(logged.number, &logged.event)?;
        }
        Ok(state)
    }

    pub fn accepted(source: Source) -> IngestState {
        IngestState::begun(Origin::List(Box::new(source)))
    }

    pub fn replaying(replay: Replay) -> IngestState {
        IngestState::begun(Origin::Run(replay))
    }

    /// The list that it reads, if it reads one.
    pub fn list(&self) -> Option<&Source> {
        match &self.origin {
            Origin::List(source) => Some(source),
            Origin::Run(_) => None,
        }
    }

    fn begun(origin: Origin) -> IngestState {
        IngestState {
            events: 1,
            origin,
            opened: None,
            validated: false,
            counted: false,
            next: Position::default(),
            chunks: 0,
            accepted: 0,
            rejected: 0,
            inherited: Counts::default(),
            unknown: UnknownCounts::default(),
            total: None,
            phase: Phase::Reading,
            read_to_end: false,
            fault: None,
            failures: 0,
            last_error: None,
            dead_lettered: false,
            resends: 0,
            redrives: 0,
            redriven: 0,
            progress: 1,
        }
    }

    pub fn apply(&mut self, number: u32, event: &IngestEvent) -> Result<(), LogOutOfOrder> {
        let legal = number == self.events && !self.phase.is_over() && self.follows(event);
        if !legal {
            return Err(LogOutOfOrder { number, event: event.name() });
        }
        self.events += 1;
        match event {
            IngestEvent::Accepted { .. } | IngestEvent::Replaying { .. } => {}
            IngestEvent::SourcePinned { compression, layout } => {
                self.opened = Some((*compression, layout.clone()));
            }
            IngestEvent::Validated { .. } => self.validated = true,
            IngestEvent::Counted { .. } => self.counted = true,
            IngestEvent::ChunkCommitted { rows, rejected, next, inherited, unknown, .. } => {
                self.inherited = self.inherited.plus(*inherited);
                self.unknown.add_all(unknown);
                self.chunks += 1;
                self.accepted += rows;
                self.rejected += rejected;
                self.next = *next;
            }
            IngestEvent::TotalSet { total } => {
                (self.total, self.phase) = (Some(*total), Phase::TotalSet);
                self.read_to_end = true;
            }
            IngestEvent::Latched => self.phase = Phase::Latched,
            IngestEvent::Cut { total } => {
                (self.accepted, self.total, self.phase) = (*total, Some(*total), Phase::Cut);
            }
            IngestEvent::Failed { fault, rejected, .. } => {
                self.rejected += rejected;
                self.fault = Some(*fault);
                self.phase = Phase::Failed;
            }
            IngestEvent::AttemptFailed { error, dead_lettered } => {
                self.failures += 1;
                self.last_error = Some(error.clone());
                self.dead_lettered = *dead_lettered;
                return Ok(());
            }
            IngestEvent::Resent => {
                self.resends += 1;
                self.dead_lettered = false;
                return Ok(());
            }
            // Everything anew but for this count, which is what ends it. Messages that were sent before are of the past, as
            // after progress: one that dies late must not be taken for the one that is sent now.
            IngestEvent::Redriven => {
                self.redrives += 1;
                (self.failures, self.resends, self.dead_lettered) = (0, 0, false);
                (self.progress, self.redriven) = (self.events, self.events);
                return Ok(());
            }
        }
        (self.failures, self.resends, self.redrives, self.dead_lettered) = (0, 0, 0, false);
        self.progress = self.events;
        Ok(())
    }

    /// Whether the event can come next, as far as the order of the steps goes.
    fn follows(&self, event: &IngestEvent) -> bool {
        let reading = self.phase == Phase::Reading;
        match event {
            IngestEvent::Accepted { .. } | IngestEvent::Replaying { .. } => false,
            IngestEvent::SourcePinned { .. } => reading && self.opened.is_none() && self.list().is_some(),
            IngestEvent::Validated { .. } => {
                reading && self.opened.is_some() && !self.validated && self.chunks == 0
            }
            IngestEvent::Counted { .. } => {
                reading && self.opened.is_some() && !self.counted && self.chunks == 0
            }
            IngestEvent::ChunkCommitted { chunk, rows, rejected, next, .. } => {
                let records = rows.checked_add(*rejected);
                let passed = next.index.checked_sub(self.next.index);
                let fits = match &self.origin {
                    Origin::List(_) => self.opened.is_some() && records == passed,
                    // Not every index of a run is a task.
                    Origin::Run(_) => passed.is_some() && records <= passed,
                };
                reading && fits && *chunk == self.chunks && next.offset >= self.next.offset
            }
            IngestEvent::TotalSet { total } => reading && *total == self.accepted,
            IngestEvent::Latched => self.phase == Phase::TotalSet,
            // More, if rows were written and counted whose event was not.
            IngestEvent::Cut { total } => *total >= self.accepted,
            // Not for what is in it, if nobody could read it to the end.
            IngestEvent::Failed { fault, .. } => reading || *fault == ListFault::IngestFailed,
            IngestEvent::AttemptFailed { .. } | IngestEvent::Resent => true,
            IngestEvent::Redriven => self.dead_lettered,
        }
    }

    pub fn next_step(&self, run: &Run) -> NextStep {
        if self.phase.is_over() {
            return NextStep::Nothing;
        }
        if run.status.is_terminal() {
            return NextStep::Cut { total: self.accepted.max(run.total) };
        }
        match (self.phase, &self.opened) {
            (Phase::TotalSet, _) => NextStep::Latch,
            (_, None) if self.list().is_none() => NextStep::Read { from: self.next },
            (_, None) => NextStep::Open,
            (_, Some(_)) if self.must_validate() => NextStep::Validate,
            // Rows that an earlier version wrote without it are not counted any more.
            (_, Some(_)) if self.chunks == 0 && !self.counted && !run.is_counted() => NextStep::Count,
            (_, Some(_)) => NextStep::Read { from: self.next },
        }
    }

    fn must_validate(&self) -> bool {
        match self.list().map(|source| source.on_invalid_rows) {
            Some(OnInvalidRows::Fail) => !self.validated,
            Some(OnInvalidRows::Skip) | None => false,
        }
    }

    /// The event as the next entry of the log.
    pub fn entry(&self, event: IngestEvent) -> Result<Entry, LogOutOfOrder> {
        self.clone().apply(self.events, &event)?;
        Ok(Entry { number: self.events, effect: self.effect_of(&event), event })
    }

    /// What appending the event does to the run.
    fn effect_of(&self, event: &IngestEvent) -> Option<IngestStep> {
        match event {
            IngestEvent::ChunkCommitted { rows, next, inherited, .. } => Some(IngestStep::Progress {
                total: self.accepted + rows,
                next_index: next.index,
                inherited: self.inherited.plus(*inherited),
            }),
            IngestEvent::TotalSet { total } => Some(IngestStep::Progress {
                total: *total,
                next_index: self.next.index,
                inherited: self.inherited,
            }),
            IngestEvent::Validated { rows } | IngestEvent::Counted { rows, .. } => {
                Some(IngestStep::Expect { tasks: *rows })
            }
            IngestEvent::Latched => Some(IngestStep::Latch),
            IngestEvent::Cut { total } => Some(IngestStep::Cut { total: *total }),
            IngestEvent::Failed { fault, detail, .. } => {
                Some(IngestStep::Fail { fault: *fault, detail: detail.clone() })
            }
            IngestEvent::Accepted { .. }
            | IngestEvent::Replaying { .. }
            | IngestEvent::SourcePinned { .. }
            | IngestEvent::AttemptFailed { .. }
            | IngestEvent::Resent
            | IngestEvent::Redriven => None,
        }
    }
}

#[cfg(test)]
#[path = "ingest_tests.rs"]
mod tests;
