//! A staged list that is short enough to be written on the request: read whole, with all that its ingest would have logged.

use crate::counting::refuse_rows;
use crate::invalid_tasks::InvalidTasks;
use crate::problem::{ApiError, Result};
use crate::staged;
use crate::state::ApiState;
use crate::wire::tasks::CHECKED_AT_ONCE;
use conveyor_domain::ingest::Source;
use conveyor_domain::ingest::list::{Layout, Position};
use conveyor_domain::job::task_input::Invalid;
use conveyor_domain::{
    Compression, IngestEvent, IngestState, ListCount, ListFault, LogOutOfOrder, OnInvalidRows, ParamPolicy,
    Params, RejectedRow, RowCount, TaskInput, UnknownCounts, limits,
};
use conveyor_lists::{ListError, Record};

/// All of a list.
#[derive(Debug)]
pub(crate) struct ShortList {
    compression: Compression,
    layout: Layout,
    /// Tasks at the places of their records.
    pub rows: Vec<(u32, TaskInput)>,
    pub rejected: Vec<RejectedRow>,
    invalid: InvalidTasks,
    /// Fields of its rows that are ignored.
    pub unknown: UnknownCounts,
    pub end: Position,
}

/// Reads a list; `None` if it has too many records, or too much in them, to be written on the request.
pub(crate) async fn read_short(state: &ApiState, source: &Source, job: &Params) -> Result<Option<ShortList>> {
    if source.staged.size > limits::SYNC_LIST_MAX_BYTES {
        return Ok(None);
    }
    let (ours, theirs) = (limits::SYNC_LIST_EXPANDED_MAX_BYTES, state.config.list_expanded_max_bytes);
    match read(state, source, job, ours.min(theirs)).await {
        Ok(list) => Ok(list),
        // Too much for a request, not for an ingest.
        Err(ListError::Fault { fault: ListFault::ExpandedTooLarge, .. }) if ours < theirs => Ok(None),
        Err(error) => Err(staged::list_failed(error)),
    }
}

async fn read(
    state: &ApiState,
    source: &Source,
    job: &Params,
    expanded_max_bytes: u64,
) -> std::result::Result<Option<ShortList>, ListError> {
    let (compression, mut reader) =
        staged::open(state, &source.staged, &source.spec, expanded_max_bytes).await?;
    let mut list = ShortList {
        compression,
        layout: reader.layout().clone(),
        rows: Vec::new(),
        rejected: Vec::new(),
        invalid: InvalidTasks::default(),
        unknown: UnknownCounts::default(),
        end: Position::default(),
    };
    let rules = source.rules(state.config.param_policy);
    while let Some(Record { index, line, offset, row }) = reader.next().await? {
        let records = index as usize + 1;
        if records > state.config.inline_tasks_max {
            return Ok(None);
        }
        if records.is_multiple_of(CHECKED_AT_ONCE) {
            tokio::task::yield_now().await;
        }
        if let Ok(row) = &row
            && !rules.unknown_fields.are_refused()
        {
            row.unknown_fields().iter().for_each(|field| list.unknown.add(field));
        }
        match row.and_then(|row| row.check(job, rules)) {
            Ok(task) => list.rows.push((index, task)),
            Err(invalid) => list.reject(index, line, offset, invalid),
        }
    }
    list.end = reader.position();
    Ok(Some(list))
}

impl ShortList {
    fn reject(&mut self, index: u32, line: u64, offset: u64, invalid: Invalid) {
        self.rejected.push(RejectedRow::new(index, line, offset, invalid.clone()));
        self.invalid.add(index as usize, Some(line), invalid);
    }

    /// Refuses what an ingest would fail with.
    pub fn check(&self, on_invalid_rows: OnInvalidRows, records_max: u32) -> Result<()> {
        refuse_rows(self.end.index, self.rows.len(), &self.invalid, on_invalid_rows, records_max)
    }

    /// What is known of it now, for the job whose parameters it was checked with.
    pub fn count(&self, policy: ParamPolicy) -> Result<ListCount> {
        let valid = u32::try_from(self.rows.len()).map_err(|e| ApiError::internal(e.to_string()))?;
        Ok(ListCount::Rows(RowCount::checked(policy, self.end.index, valid)))
    }

    /// What its ingest would have logged after `accepted`, to `latched`.
    pub fn log(
        &self,
        source: &Source,
        report: Option<String>,
    ) -> std::result::Result<Vec<IngestEvent>, LogOutOfOrder> {
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let (rows, rejected) = (count(self.rows.len()), count(self.rejected.len()));
        let mut state = IngestState::accepted(source.clone());
        let validated = match source.on_invalid_rows {
            OnInvalidRows::Fail => Some(IngestEvent::Validated { rows }),
            OnInvalidRows::Skip => None,
        };
        let mut log = Vec::new();
        let pinned = IngestEvent::SourcePinned { compression: self.compression, layout: self.layout.clone() };
        let chunk = IngestEvent::ChunkCommitted {
            chunk: 0,
            rows,
            rejected,
            next: self.end,
            report,
            inherited: Default::default(),
            unknown: self.unknown.clone(),
        };
        let end = [chunk, IngestEvent::TotalSet { total: rows }, IngestEvent::Latched];
        for event in std::iter::once(pinned).chain(validated).chain(end) {
            state.apply(state.events, &event)?;
            log.push(event);
        }
        Ok(log)
    }
}
