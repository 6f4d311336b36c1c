//! Counts lists: while their bytes are uploaded (SPEC 6.9), and for a moment on the submit of a list that nobody has counted
//! (SPEC 6.10).

use crate::invalid_tasks::InvalidTasks;
use crate::problem::{ApiError, Result};
use crate::staged;
use crate::state::ApiState;
use bytes::Bytes;
use conveyor_domain::ingest::Source;
use conveyor_domain::job::run::Expected;
use conveyor_domain::job::task_input::Invalid;
use conveyor_domain::{CallerId, ListCount, ListFault, ListSpec, OnInvalidRows, Params, RowCount, limits};
use conveyor_lists::{ExpandLimits, ListError, count, expand};
use conveyor_store::port::BlobKey;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use std::io;
use tokio::sync::mpsc;
use tokio_util::io::StreamReader;
use tokio_util::task::AbortOnDropHandle;

/// What a list is counted under.
#[derive(Clone, Debug)]
struct Rules {
    spec: ListSpec,
    expand: ExpandLimits,
    records_max: u32,
    rows: RowCount,
}

impl Rules {
    fn new(state: &ApiState, spec: &ListSpec) -> Rules {
        let expanded_max_bytes = state.config.list_expanded_max_bytes;
        Rules {
            spec: spec.clone(),
            expand: ExpandLimits { expanded_max_bytes, ..ExpandLimits::default() },
            records_max: state.config.run_tasks_max,
            rows: RowCount::new(state.config.param_policy),
        }
    }

    /// `None` if the bytes could not be read.
    async fn count(
        mut self,
        bytes: impl Stream<Item = io::Result<Bytes>> + Unpin + Send + 'static,
    ) -> Option<ListCount> {
        let work = async {
            let expanded = expand(StreamReader::new(bytes), self.expand).await?;
            count(expanded, &self.spec, &mut self.rows, self.records_max).await
        };
        let ended = work.await;
        outcome(ended, self.rows)
    }
}

fn outcome(ended: std::result::Result<(), ListError>, rows: RowCount) -> Option<ListCount> {
    match ended {
        Ok(()) => Some(ListCount::Rows(rows)),
        Err(ListError::Fault { fault, line, detail }) => Some(ListCount::Fault { fault, line, detail }),
        Err(ListError::Read(error)) => {
            tracing::warn!(%error, "a list was not counted; its ingest will");
            None
        }
    }
}

/// A count that is made beside something else, and ends with it.
#[derive(Debug)]
pub(crate) struct Counting(AbortOnDropHandle<Option<ListCount>>);

impl Counting {
    /// What came of it, once all bytes have passed.
    pub async fn end(self) -> Option<ListCount> {
        // One that panicked counted nothing.
        self.0.await.ok().flatten()
    }
}

/// Counts a list while its bytes pass by. They wait for it, a few pieces behind: what is not counted is not held.
pub(crate) fn passing(
    state: &ApiState,
    spec: &ListSpec,
    pieces: impl Stream<Item = Result<Bytes>> + Send + 'static,
) -> (impl Stream<Item = Result<Bytes>> + Send + 'static, Counting) {
    let (send, mut receive) = mpsc::channel::<Bytes>(limits::COUNT_PIECES_AHEAD);
    let bytes = stream::poll_fn(move |cx| receive.poll_recv(cx)).map(Ok);
    let counting = tokio::spawn(Rules::new(state, spec).count(bytes));
    let pieces = pieces.then(move |piece| {
        let send = send.clone();
        async move {
            if let Ok(bytes) = &piece {
                // One that is done, because it has seen enough, takes no more.
                let _ = send.send(bytes.clone()).await;
            }
            piece
        }
    });
    (pieces, Counting(AbortOnDropHandle::new(counting)))
}

/// Counts a list whose parts are being joined.
pub(crate) async fn parts(state: &ApiState, spec: &ListSpec, keys: Vec<BlobKey>) -> Option<ListCount> {
    let blobs = state.backend.blobs.clone();
    let bytes = stream::iter(keys)
        .then(move |key| {
            let blobs = blobs.clone();
            async move { blobs.read(&key).await }
        })
        .try_flatten()
        .map_err(io::Error::other);
    Rules::new(state, spec).count(bytes.boxed()).await
}

/// Counts a list that nobody has counted, for as long as a submit may take for that, and says how many tasks the job has of
/// it at least. What its ingest would fail with is refused, as far as it is known by then.
pub(crate) async fn briefly(
    state: &ApiState,
    caller: CallerId,
    source: &mut Source,
    job: &Params,
) -> Result<Option<Expected>> {
    let within = state.config.count_within;
    if source.staged.count.is_some() || state.direct().is_none() || within.is_zero() {
        refuse(source, state.config.run_tasks_max)?;
        return Ok(source.expected(job));
    }
    let Rules { mut rows, records_max, .. } = Rules::new(state, &source.spec);
    let work = async {
        let _turn = state.counts.turn(caller).await;
        let expanded_max = state.config.list_expanded_max_bytes;
        let expanded = staged::expanded(state, &source.staged, expanded_max).await?;
        count(expanded, &source.spec, &mut rows, records_max).await
    };
    match tokio::time::timeout(within, work).await {
        Ok(ended) => {
            source.staged.count = outcome(ended, rows).map(Box::new);
            refuse(source, state.config.run_tasks_max)?;
            Ok(source.expected(job))
        }
        // More rows do not make the invalid ones valid.
        Err(_) => match source.on_invalid_rows {
            OnInvalidRows::Fail if rows.invalid() > 0 => {
                Err(ApiError::invalid_rows(rows.records, &invalid(&rows)))
            }
            OnInvalidRows::Fail | OnInvalidRows::Skip => Ok(Some(rows.expected_at_least(job))),
        },
    }
}

/// Refuses what the ingest of a list would fail with, as far as its count tells.
fn refuse(source: &Source, records_max: u32) -> Result<()> {
    if let Some(ListCount::Fault { fault, line, detail }) = source.staged.count.as_deref() {
        return Err(ApiError::list(*fault, *line, &format!("{detail}.")));
    }
    match source.counted() {
        Some(rows) => refuse_rows(
            rows.records,
            rows.valid as usize,
            &invalid(rows),
            source.on_invalid_rows,
            records_max,
        ),
        None => Ok(()),
    }
}

/// Refuses rows that the ingest of their list would fail with.
pub(crate) fn refuse_rows(
    records: u32,
    valid: usize,
    invalid: &InvalidTasks,
    on_invalid_rows: OnInvalidRows,
    records_max: u32,
) -> Result<()> {
    if records > records_max {
        let detail = format!("The list has more than {records_max} records.");
        return Err(ApiError::list(ListFault::TooManyRows, None, &detail));
    }
    match on_invalid_rows {
        OnInvalidRows::Fail if !invalid.is_empty() => return Err(ApiError::invalid_rows(records, invalid)),
        OnInvalidRows::Fail | OnInvalidRows::Skip => {}
    }
    match valid {
        0 => Err(ApiError::no_valid_rows(&format!("None of {records} rows is valid."), invalid)),
        _ => Ok(()),
    }
}

/// All are counted, the first is named.
fn invalid(rows: &RowCount) -> InvalidTasks {
    let mut invalid = InvalidTasks::default();
    if let Some(first) = &rows.first_invalid {
        let why = Invalid { reason: first.reason, value: first.value.clone() };
        invalid.add(first.index as usize, Some(first.line), why);
    }
    invalid.count = rows.invalid() as usize;
    invalid
}
