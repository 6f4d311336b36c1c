//! Settles (SPEC 6.4): up to 99 rows and the count of them in one transaction.

use super::counters::Lane;
use super::item::{Draft, Item, json, number};
use super::places::Place;
use super::rows::failed_attribute;
use super::tasks::{TaskRow, status_number};
use super::transact::{Condition, Expression, Unmet};
use super::{Table, keys};
use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};
use conveyor_domain::run::Counts;
use conveyor_domain::task::Outcome;
use conveyor_domain::{FailureClass, TaskStatus, Timestamp, WorkerId};
use conveyor_store::port::{RunKey, Settle, SettleGroup, Settled};
use conveyor_store::{Error, Result};
use std::collections::HashSet;

/// Writes of one transaction, with the counter row.
const WRITES_MAX: usize = 100;

/// A settle that has no answer yet, with its place in the group.
type Open<'a> = (usize, &'a Settle);

/// One transaction's worth of settles: for each its place in the group and how many writes it takes.
struct Batch<'a> {
    settles: Vec<(Open<'a>, usize)>,
    writes: Vec<TransactWriteItem>,
    counts: Counts,
}

impl Table {
    pub async fn settle_group(&self, group: SettleGroup, now: Timestamp) -> Result<Vec<Settled>> {
        let SettleGroup { key, worker, settles } = group;
        let mut answers = vec![Settled::Lost; settles.len()];
        let Some(place) = self.place(key).await? else { return Ok(answers) };
        let lane = self.lanes.take(key.run, worker);
        let mut open: Vec<Open<'_>> = settles.iter().enumerate().collect();
        let mut most = WRITES_MAX;
        while !open.is_empty() {
            let batch = self.batch(key, place, most, &mut open, &mut answers, now).await?;
            let of_batch: Vec<Open<'_>> = batch.settles.iter().map(|(settle, _)| *settle).collect();
            match self.settle_batch(key, worker, &lane, batch, &mut open, &mut answers).await {
                Ok(()) => {}
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

    /// Takes as many of the open settles as one transaction holds, no task twice.
    async fn batch<'a>(
        &self,
        key: RunKey,
        place: Place,
        most: usize,
        open: &mut Vec<Open<'a>>,
        answers: &mut [Settled],
        now: Timestamp,
    ) -> Result<Batch<'a>> {
        let mut batch = Batch { settles: Vec::new(), writes: Vec::new(), counts: Counts::default() };
        let (mut tasks, mut rest) = (HashSet::new(), Vec::new());
        for (at, settle) in std::mem::take(open) {
            // A retry also writes down the attempt that it follows; the last write is the count.
            let needed = if matches!(settle.outcome, Outcome::Retry { .. }) { 2 } else { 1 };
            if !has_room(batch.writes.len(), needed, most) || !tasks.insert(settle.task) {
                rest.push((at, settle));
                continue;
            }
            match self.writes_of(key, place, settle, now).await? {
                Ok(writes) => {
                    batch.settles.push(((at, settle), writes.len()));
                    batch.writes.extend(writes);
                    count(&mut batch.counts, &settle.outcome);
                }
                Err(answer) => answers[at] = answer,
            }
        }
        *open = rest;
        Ok(batch)
    }

    /// Writes a batch with its count. Those whose rows are not ours any more are answered, and the others open again.
    async fn settle_batch<'a>(
        &self,
        key: RunKey,
        worker: WorkerId,
        lane: &Lane,
        batch: Batch<'a>,
        open: &mut Vec<Open<'a>>,
        answers: &mut [Settled],
    ) -> Result<()> {
        let Batch { settles, mut writes, counts } = batch;
        if settles.is_empty() {
            return Ok(());
        }
        if !counts.is_zero() {
            let counter = keys::counter(key.job, key.run, worker, lane.number);
            writes.push(self.update(&counter, addition(counts), None)?);
        }
        let unmet = match self.transact(writes).await? {
            Ok(()) => {
                settles.iter().for_each(|((at, _), _)| answers[*at] = Settled::Applied);
                return Ok(());
            }
            Err(unmet) => unmet,
        };
        let mut first = 0;
        for ((at, settle), writes) in settles {
            match refused(&unmet, first..first + writes, settle)? {
                Some(answer) => answers[at] = answer,
                None => open.push((at, settle)),
            }
            first += writes;
        }
        Ok(())
    }

    /// What a settle writes; or its answer, if that is known without writing.
    async fn writes_of(
        &self,
        key: RunKey,
        place: Place,
        settle: &Settle,
        now: Timestamp,
    ) -> Result<std::result::Result<Vec<TransactWriteItem>, Settled>> {
        let row = keys::task(key.job, place.shards, key.run, settle.task);
        let status = settle.outcome.status();
        let mut values = vec![(":st", number(status_number(status))), (":now", number(now.0))];
        let ended = "SET st = :st, ua = :now, att = att + :one, cl = :zero, nb = :nb";
        let (text, more): (String, Vec<(&'static str, AttributeValue)>) = match &settle.outcome {
            Outcome::Successful(result) => {
                (format!("{ended}, res = :res REMOVE err"), vec![(":res", json(result)?), (":nb", number(0))])
            }
            Outcome::Failed { problem, .. } => (
                format!("{ended}, err = :err REMOVE res"),
                vec![(":err", json(problem)?), (":nb", number(0))],
            ),
            Outcome::Retry { not_before, .. } => (ended.to_owned(), vec![(":nb", number(not_before.0))]),
            // No attempt was made: the claim is taken back.
            Outcome::Release => {
                ("SET st = :st, ua = :now, cl = cl - :one, nb = :zero".to_owned(), Vec::new())
            }
        };
        values.extend(more);
        values.extend([(":one", number(1)), (":zero", number(0))]);
        let mut writes = vec![self.update(&row, Expression { text, values }, Some(ours(settle)))?];
        if let Outcome::Retry { problem, .. } = &settle.outcome {
            // Which attempt it was, and when it began, only the row knows. Retries are rare enough to ask.
            let found = self.get(&row).await?;
            let Some(found) = found.as_ref().map(TaskRow::decode).transpose()? else {
                return Ok(Err(Settled::Lost));
            };
            if found.token != Some(settle.token) || found.status != TaskStatus::Processing {
                return Ok(Err(answer(&found, settle)));
            }
            let number_of = found.attempts + 1;
            let kept = Draft::at(&keys::attempt(key.job, place.shards, key.run, settle.task, number_of))
                .set("no", number(number_of))
                .set("sa", number(found.started.unwrap_or(now).0))
                .set("ea", number(now.0))
                .set("err", json(problem)?);
            writes.push(self.put(kept.item(), None)?);
        }
        Ok(Ok(writes))
    }
}

/// Whether a transaction of at most `most` writes, the count among them, takes this many more. It always takes the first.
fn has_room(taken: usize, needed: usize, most: usize) -> bool {
    taken == 0 || taken + needed < most
}

/// What to send at most, with the count, when so many settles were too much: fewer of them each time, down to one.
fn half(settles: usize) -> usize {
    settles.div_ceil(2) + 1
}

/// Only the holder of the latest claim may settle.
fn ours(settle: &Settle) -> Condition {
    Condition {
        expression: "tok = :token AND st = :processing".to_owned(),
        values: vec![
            (":token", number(settle.token.to_stored())),
            (":processing", number(status_number(TaskStatus::Processing))),
        ],
    }
}

/// The answer to a settle whose condition did not hold; `None` if it was not this one that stood in the way.
fn refused(unmet: &Unmet, places: std::ops::Range<usize>, settle: &Settle) -> Result<Option<Settled>> {
    let Some(found) = places.into_iter().find_map(|place| unmet.at(place)) else { return Ok(None) };
    let row = found.map(|item: &Item| TaskRow::decode(item)).transpose()?;
    Ok(Some(row.map_or(Settled::Lost, |row| answer(&row, settle))))
}

fn answer(row: &TaskRow, settle: &Settle) -> Settled {
    let ours = row.token == Some(settle.token) && row.status == settle.outcome.status();
    if ours { Settled::Already } else { Settled::Lost }
}

fn count(counts: &mut Counts, outcome: &Outcome) {
    match outcome {
        Outcome::Successful(_) => counts.successful += 1,
        Outcome::Failed { class, .. } => counts.add_failed(*class),
        Outcome::Retry { .. } | Outcome::Release => {}
    }
}

const NAMES: [&str; 7] = [":f0", ":f1", ":f2", ":f3", ":f4", ":f5", ":f6"];

fn addition(counts: Counts) -> Expression {
    let (mut terms, mut values) = (Vec::new(), Vec::new());
    if counts.successful > 0 {
        terms.push("s :s".to_owned());
        values.push((":s", number(counts.successful)));
    }
    for class in FailureClass::ALL {
        let failed = counts.failed[class as usize];
        if failed > 0 {
            terms.push(format!("{} {}", failed_attribute(class), NAMES[class as usize]));
            values.push((NAMES[class as usize], number(failed)));
        }
    }
    Expression { text: format!("ADD {}", terms.join(", ")), values }
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
