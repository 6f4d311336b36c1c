//! Additions that were begun and never counted (SPEC 5.4). The indexes that an addition reserved are a hole of its run: rows
//! there are nobody's. A hole that is given up is marked, so that its addition cannot be counted any more; then every row of
//! it becomes void, which fences off a writer that stalled (rows are put if absent); then it is forgotten.

use super::Table;
use super::insert::{CALLS_INFLIGHT, STATEMENTS_MAX};
use super::item::{Draft, number};
use super::keys;
use super::outcome::settled_until;
use super::rows::{RunRow, State};
use super::tasks::VOID;
use super::transact::Condition;
use aws_sdk_dynamodb::types::{PutRequest, WriteRequest};
use conveyor_domain::{TaskId, Timestamp, limits};
use conveyor_store::port::RunKey;
use conveyor_store::{Error, Result};
use futures::{StreamExt, TryStreamExt, stream};

/// Indexes that an addition has reserved and not counted: rows there are nobody's yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    pub first: u32,
    pub end: u32,
    /// When it was reserved. `None`: it is given up, and its addition must not be counted any more.
    pub since: Option<Timestamp>,
}

/// When a hole was reserved that an earlier version wrote without a time: nobody knows. It is taken to be made when an addition
/// of this version first wants to close it, as a process of that version may be filling it now.
pub const UNTIMED: Timestamp = Timestamp(0);

impl Hole {
    pub fn contains(&self, index: u32) -> bool {
        (self.first..self.end).contains(&index)
    }

    fn may_close(&self, now: Timestamp) -> bool {
        self.since.is_none_or(|since| since != UNTIMED && since.after(limits::ADDITION_GIVEN_UP) <= now)
    }

    /// It is this one, and not given up.
    pub fn is_open_at(&self, other: &Hole) -> bool {
        self.is_at(other) && self.since.is_some()
    }

    fn is_at(&self, other: &Hole) -> bool {
        (self.first, self.end) == (other.first, other.end)
    }
}

/// The oldest holes that may be closed, no more than one addition can deal with, and at least one.
fn to_close(holes: &[Hole], now: Timestamp) -> Vec<Hole> {
    let mut rows = 0;
    let fits = |hole: &&Hole| {
        let first = rows == 0;
        rows += hole.end - hole.first;
        first || rows <= limits::HOLE_ROWS_AT_ONCE
    };
    holes.iter().filter(|hole| hole.may_close(now)).take_while(fits).copied().collect()
}

impl Table {
    /// Closes some holes of a run that were given up, if there are any. Each step can be repeated by anybody.
    pub async fn close_holes(&self, state: &State, now: Timestamp) -> Result<()> {
        let close = to_close(&state.run.holes, now);
        let mut run = state.run.clone();
        let is_closed = |hole: &Hole| close.iter().any(|closed| closed.is_at(hole));
        for hole in &mut run.holes {
            if is_closed(hole) {
                hole.since = None;
            } else if hole.since == Some(UNTIMED) {
                hole.since = Some(now);
            }
        }
        if run != state.run {
            run.version += 1;
            if !self.put_if(run.encode()?, Condition::version(state.run.version)).await? {
                // The run has changed: the next addition finds them again.
                return Ok(());
            }
        }
        for hole in &close {
            self.make_void(&run, *hole, now).await?;
        }
        if close.is_empty() {
            return Ok(());
        }
        let key = RunKey { job: run.run.job, run: run.run.id };
        let mut backoff = self.backoff();
        loop {
            let Some(mut run) = self.find_run(key).await? else { return Ok(()) };
            let (seen, holes) = (Condition::version(run.version), run.holes.len());
            run.holes.retain(|hole| hole.since.is_some() || !is_closed(hole));
            if run.holes.len() == holes {
                return Ok(());
            }
            run.version += 1;
            if self.put_if(run.encode()?, seen).await? {
                tracing::info!(run = %key.run, holes = close.len(), "additions that were given up are closed");
                return Ok(());
            }
            backoff.wait("an addition that was given up").await?;
        }
    }

    /// Puts a void row in every place of a hole, whatever is there.
    async fn make_void(&self, run: &RunRow, hole: Hole, now: Timestamp) -> Result<()> {
        let put = |index: u32| -> Result<WriteRequest> {
            let task = TaskId::of(run.run.id_seed, index);
            let row = Draft::at(&keys::task(run.run.job, run.shards, run.run.id, task))
                .set(VOID, number(1))
                .set(keys::TTL, settled_until(now));
            let put = PutRequest::builder().set_item(Some(row.item())).build();
            let put = put.map_err(|e| Error::Corrupt(e.to_string()))?;
            Ok(WriteRequest::builder().put_request(put).build())
        };
        let rows: Vec<WriteRequest> = (hole.first..hole.end).map(put).collect::<Result<_>>()?;
        let calls: Vec<Vec<_>> = rows.chunks(STATEMENTS_MAX).map(<[_]>::to_vec).collect();
        stream::iter(calls.into_iter().map(|batch| self.write_batch(batch)))
            .buffer_unordered(CALLS_INFLIGHT)
            .try_collect()
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hole(first: u32, rows: u32, since: Option<i64>) -> Hole {
        Hole { first, end: first + rows, since: since.map(Timestamp) }
    }

    #[test]
    fn only_what_was_given_up_is_closed_and_not_too_much_at_once() {
        let (old, now) = (Some(1), Timestamp(1_800_000_000_000));
        let young = Some(now.0 - 1_000);
        let holes = [hole(0, 10, young), hole(10, 10, old), hole(20, 10, None), hole(30, 10_000, old)];
        assert_eq!(to_close(&holes, now), holes[1..3]);
        assert_eq!(to_close(&holes[3..], now), holes[3..], "the first is closed, however large it is");
        assert_eq!(to_close(&holes[..1], now), []);
        assert_eq!(to_close(&[hole(0, 10, Some(0))], now), [], "nobody knows how old it is");
    }
}
