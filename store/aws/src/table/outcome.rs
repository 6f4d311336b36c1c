//! What the outcome of a task does to its row and to the counters (SPEC 6.4).

use super::item::{self, Draft, json, number, time_to_live};
use super::places::Place;
use super::settle::answer;
use super::tasks::{TaskRow, status_number};
use super::transact::{Condition, Expression, TTL_NAME};
use super::{Table, keys};
use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};
use conveyor_domain::{ClaimToken, Counts, Outcome, Spend, TaskId, TaskStatus, Timestamp, limits};
use conveyor_store::Result;
use conveyor_store::port::{RunKey, Settled};
use std::time::Duration;

/// How long a row that is settled is kept: a day longer than anybody may see it.
const SETTLED_KEPT: Duration = limits::ROWS_KEPT.saturating_add(Duration::from_secs(24 * 3600));

/// When a row that is settled now may go.
pub fn settled_until(now: Timestamp) -> AttributeValue {
    time_to_live(now, SETTLED_KEPT)
}

/// Whose outcome it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The holder of the latest claim.
    Claim(ClaimToken),
    /// Somebody who knows it from elsewhere, whoever has claimed the task.
    Anybody,
}

/// An outcome on its way to a row.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    pub task: TaskId,
    pub by: By,
    pub outcome: &'a Outcome,
    /// What the attempt cost.
    pub spend: Spend,
}

impl Change<'_> {
    /// How many writes it takes: a retry also writes down the attempt that it follows.
    pub fn writes(&self) -> usize {
        if matches!(self.outcome, Outcome::Retry { .. }) { 2 } else { 1 }
    }

    pub fn count(&self, counts: &mut Counts) {
        match self.outcome {
            Outcome::Successful(_) => counts.successful += 1,
            Outcome::Failed { class, .. } => counts.add_failed(*class),
            Outcome::Retry { .. } | Outcome::Release => {}
        }
    }

    /// Whether the row carries the claim that it was made under.
    pub fn is_under(&self, row: &TaskRow) -> bool {
        row.token.is_some_and(|token| self.by == By::Claim(token))
    }

    fn condition(&self) -> Condition {
        match self.by {
            By::Claim(token) => Condition {
                expression: "tok = :token AND st = :processing".to_owned(),
                values: vec![
                    (":token", number(token.to_stored())),
                    (":processing", number(status_number(TaskStatus::Processing))),
                ],
            },
            By::Anybody => Condition {
                expression: "st < :terminal".to_owned(),
                values: vec![(":terminal", number(status_number(TaskStatus::Successful)))],
            },
        }
    }

    /// `counted` is which counter row counts it, and when.
    fn expression(&self, counted: &str, now: Timestamp) -> Result<Expression> {
        let status = status_number(self.outcome.status());
        let mut values = vec![(":st", number(status)), (":now", number(now.0))];
        let attempted = "SET st = :st, ua = :now, att = att + :one, cl = :zero, nb = :nb";
        // Whoever else had claimed the task finds out that it lost.
        let claim = if self.by == By::Anybody { ", tok" } else { "" };
        let (text, more) = match self.outcome {
            Outcome::Successful(result) => (
                format!("{attempted}, cb = :cb, {TTL_NAME} = :ttl, res = :res REMOVE err{claim}"),
                vec![(":res", json(result)?), (":nb", number(0))],
            ),
            Outcome::Failed { problem, class } => (
                format!("{attempted}, cb = :cb, {TTL_NAME} = :ttl, err = :err, fc = :fc REMOVE res{claim}"),
                vec![(":err", json(problem)?), (":fc", number(*class as usize)), (":nb", number(0))],
            ),
            Outcome::Retry { not_before, .. } => (attempted.to_owned(), vec![(":nb", number(not_before.0))]),
            // No attempt was made: the claim is taken back.
            Outcome::Release => {
                ("SET st = :st, ua = :now, cl = cl - :one, nb = :zero".to_owned(), Vec::new())
            }
        };
        values.extend(more);
        values.extend([(":one", number(1)), (":zero", number(0))]);
        let text = match self.spend.is_zero() || !self.outcome.status().is_terminal() {
            true => text,
            false => {
                values.push((":sp", json(&self.spend)?));
                text.replacen("SET ", "SET sp = :sp, ", 1)
            }
        };
        if self.outcome.status().is_terminal() {
            values.extend([(":cb", item::text(counted)), (":ttl", settled_until(now))]);
        }
        Ok(Expression { text, values })
    }
}

impl Table {
    /// What a change writes; or its answer, if that is known without writing.
    pub async fn writes_of(
        &self,
        key: RunKey,
        place: Place,
        change: &Change<'_>,
        counted: &str,
        now: Timestamp,
    ) -> Result<std::result::Result<Vec<TransactWriteItem>, Settled>> {
        let row = keys::task(key.job, place.shards, key.run, change.task);
        let mut writes =
            vec![self.update(&row, change.expression(counted, now)?, Some(change.condition()))?];
        if let Outcome::Retry { problem, .. } = change.outcome {
            // Which attempt it was, and when it began, only the row knows. Retries are rare enough to ask.
            let found = self.get(&row).await?;
            let Some(found) = found.as_ref().map(TaskRow::decode).transpose()? else {
                return Ok(Err(Settled::Lost));
            };
            if !change.is_under(&found) || found.status != TaskStatus::Processing {
                return Ok(Err(answer(&found, change)));
            }
            let number_of = found.attempts + 1;
            let kept = Draft::at(&keys::attempt(key.job, place.shards, key.run, change.task, number_of))
                .set("no", number(number_of))
                .set("sa", number(found.started.unwrap_or(now).0))
                .set("ea", number(now.0))
                .set("err", json(problem)?)
                .set_some("sp", (!change.spend.is_zero()).then(|| json(&change.spend)).transpose()?)
                .set(keys::TTL, settled_until(now));
            writes.push(self.put(kept.item(), None)?);
        }
        Ok(Ok(writes))
    }
}
