//! Settles (SPEC 6.4): up to 99 rows and the count of them in one transaction.

use super::counters::{self, Lane};
use super::item::Item;
use super::outcome::{By, Change};
use super::places::Place;
use super::tasks::TaskRow;
use super::transact::Unmet;
use super::{Table, keys};
use aws_sdk_dynamodb::types::TransactWriteItem;
use conveyor_domain::{Counts, Outcome, Spend, TaskId, Timestamp, WorkerId};
use conveyor_store::port::{RunKey, SettleGroup, Settled};
use conveyor_store::{Error, Result};
use std::collections::HashSet;

/// Writes of one transaction, with the counter row.
const WRITES_MAX: usize = 100;

/// A change that has no answer yet, with its place in the group.
type Open<'a> = (usize, Change<'a>);

/// Where changes of one run are written and counted, by whom, and when.
struct Group {
    key: RunKey,
    place: Place,
    worker: WorkerId,
    lane: Lane,
    now: Timestamp,
}

/// One transaction's worth of changes: for each its place in the group and how many writes it takes.
struct Batch<'a> {
    changes: Vec<(Open<'a>, usize)>,
    writes: Vec<TransactWriteItem>,
    counts: Counts,
    spend: Spend,
    /// When it is counted. Another one for every try: one that was refused may still be under way.
    moment: u64,
}

impl Table {
    pub async fn settle_group(&self, group: SettleGroup, now: Timestamp) -> Result<Vec<Settled>> {
        let SettleGroup { key, worker, settles } = group;
        let Some(place) = self.place(key).await? else { return Ok(vec![Settled::Lost; settles.len()]) };
        let changes = settles.iter().map(|settle| Change {
            task: settle.task,
            by: By::Claim(settle.token),
            outcome: &settle.outcome,
            spend: settle.charged(),
        });
        let lane = self.lanes.take(key.run, worker);
        self.change_tasks(&Group { key, place, worker, lane, now }, changes.collect()).await
    }

    /// Ends of tasks that are known from elsewhere; for each, whether the task was given it.
    pub async fn restore_tasks(
        &self,
        key: RunKey,
        worker: WorkerId,
        ends: &[(TaskId, Outcome)],
        now: Timestamp,
    ) -> Result<Vec<bool>> {
        let mut given = vec![false; ends.len()];
        let Some(run) = self.find_run(key).await? else { return Ok(given) };
        let place = Place { shards: run.shards, seed: run.run.id_seed };
        // A row that is nobody's yet must not be counted.
        let counts = |task: TaskId| task.belongs_to(place.seed) && run.shows(task.index());
        let (places, changes): (Vec<usize>, Vec<Change<'_>>) = ends
            .iter()
            .enumerate()
            .filter(|(_, (task, outcome))| outcome.status().is_terminal() && counts(*task))
            .map(|(at, (task, outcome))| {
                (at, Change { task: *task, by: By::Anybody, outcome, spend: Spend::default() })
            })
            .unzip();
        let lane = self.lanes.take(key.run, worker);
        let answers = self.change_tasks(&Group { key, place, worker, lane, now }, changes).await?;
        for (at, answer) in places.into_iter().zip(answers) {
            given[at] = answer == Settled::Applied;
        }
        Ok(given)
    }

    async fn change_tasks(&self, group: &Group, changes: Vec<Change<'_>>) -> Result<Vec<Settled>> {
        let mut answers = vec![Settled::Lost; changes.len()];
        let mut open: Vec<Open<'_>> = changes.into_iter().enumerate().collect();
        let (mut most, mut backoff) = (WRITES_MAX, self.backoff());
        while !open.is_empty() {
            let batch = self.batch(group, most, &mut open, &mut answers).await?;
            let of_batch: Vec<Open<'_>> = batch.changes.iter().map(|(change, _)| *change).collect();
            match self.write_batch_of(group, batch, &mut open, &mut answers).await {
                Ok(Counted::InTime) => {}
                Ok(Counted::Late) => backoff.wait("a counter").await?,
                // Too much for one transaction, perhaps: rows can be large. Half of it may not be.
                Err(Error::Corrupt(_)) if of_batch.len() > 1 => {
                    most = half(of_batch.len());
                    open.extend(of_batch);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(answers)
    }

    /// Takes as many of the open changes as one transaction holds, no task twice.
    async fn batch<'a>(
        &self,
        group: &Group,
        most: usize,
        open: &mut Vec<Open<'a>>,
        answers: &mut [Settled],
    ) -> Result<Batch<'a>> {
        let moment = counters::next_moment();
        let counted = format!("{}#{moment}", keys::counter_name(group.worker, group.lane.number));
        let (counts, spend) = (Counts::default(), Spend::default());
        let mut batch = Batch { changes: Vec::new(), writes: Vec::new(), counts, spend, moment };
        let (mut tasks, mut rest) = (HashSet::new(), Vec::new());
        for (at, change) in std::mem::take(open) {
            // The last write is the count.
            if !has_room(batch.writes.len(), change.writes(), most) || !tasks.insert(change.task) {
                rest.push((at, change));
                continue;
            }
            match self.writes_of(group.key, group.place, &change, &counted, group.now).await? {
                Ok(writes) => {
                    batch.changes.push(((at, change), writes.len()));
                    batch.writes.extend(writes);
                    change.count(&mut batch.counts);
                    batch.spend = batch.spend.plus(change.spend);
                }
                Err(answer) => answers[at] = answer,
            }
        }
        *open = rest;
        Ok(batch)
    }

    /// Writes a batch with its count. Those whose rows are not ours any more are answered, and the others open again.
    async fn write_batch_of<'a>(
        &self,
        group: &Group,
        batch: Batch<'a>,
        open: &mut Vec<Open<'a>>,
        answers: &mut [Settled],
    ) -> Result<Counted> {
        let Batch { changes, mut writes, counts, spend, moment } = batch;
        if changes.is_empty() {
            return Ok(Counted::InTime);
        }
        let count = writes.len();
        // The row has its price: what counts and costs nothing leaves it alone.
        if !counts.is_zero() || !spend.is_zero() {
            let counter = keys::counter(group.key.job, group.key.run, group.worker, group.lane.number);
            let addition = counters::addition("n = :n", counts.into(), spend);
            writes.push(self.update(&counter, addition, Some(counters::forward(moment)))?);
        }
        let unmet = match self.transact(writes).await? {
            Ok(()) => {
                changes.iter().for_each(|((at, _), _)| answers[*at] = Settled::Applied);
                return Ok(Counted::InTime);
            }
            Err(unmet) => unmet,
        };
        let mut first = 0;
        for ((at, change), writes) in changes {
            match refused(&unmet, first..first + writes, &change)? {
                Some(answer) => answers[at] = answer,
                None => open.push((at, change)),
            }
            first += writes;
        }
        match unmet.at(count) {
            None => Ok(Counted::InTime),
            Some(counter) => {
                counter.map_or(Ok(()), counters::go_beyond)?;
                Ok(Counted::Late)
            }
        }
    }
}

/// Whether the clock of the counter row stood before the moment of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    InTime,
    /// It did not: nothing was written, and all of it is sent again under a later moment.
    Late,
}

/// Whether a transaction of at most `most` writes, the count among them, takes this many more. It always takes the first.
fn has_room(taken: usize, needed: usize, most: usize) -> bool {
    taken == 0 || taken + needed < most
}

/// What to send at most, with the count, when so many settles were too much: fewer of them each time, down to one.
fn half(settles: usize) -> usize {
    settles.div_ceil(2) + 1
}

/// The answer to a change whose condition did not hold; `None` if it was not this one that stood in the way.
fn refused(unmet: &Unmet, places: std::ops::Range<usize>, change: &Change<'_>) -> Result<Option<Settled>> {
    let Some(found) = places.into_iter().find_map(|place| unmet.at(place)) else { return Ok(None) };
    // One that cannot be read is not under our claim.
    let row = found.and_then(|item: &Item| TaskRow::decode(item).ok());
    Ok(Some(row.map_or(Settled::Lost, |row| answer(&row, change))))
}

pub fn answer(row: &TaskRow, change: &Change<'_>) -> Settled {
    let ours = change.is_under(row) && row.status == change.outcome.status();
    if ours { Settled::Already } else { Settled::Lost }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many settles of so many writes each fit.
    fn taken(of: usize, needed: usize, most: usize) -> usize {
        (0..of).take_while(|n| has_room(n * needed, needed, most)).count()
    }

    #[test]
    fn a_full_group_and_its_count_are_one_transaction() {
        assert_eq!(taken(200, 1, WRITES_MAX), 99);
        assert_eq!(taken(200, 2, WRITES_MAX), 49, "each with the attempt that it follows");
    }

    #[test]
    fn what_is_too_much_becomes_less_each_time_and_never_nothing() {
        for needed in [1, 2] {
            for settles in 2..=99 {
                let next = taken(settles, needed, half(settles));
                assert!((1..settles).contains(&next), "{settles} of {needed} writes: then {next}");
            }
        }
    }
}
