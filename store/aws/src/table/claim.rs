//! Claims (SPEC 6.3): one conditional update a task, decided by the row itself.

use super::item::{Item, Row, number};
use super::jobs::READS_INFLIGHT;
use super::tasks::{TaskRow, is_void, status, status_number};
use super::{Table, keys};
use crate::client::count_capacity;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{ReturnConsumedCapacity, ReturnValue, ReturnValuesOnConditionCheckFailure};
use conveyor_domain::job::task::decide_claim;
use conveyor_domain::{
    ClaimDecision, ClaimToken, RunStatus, TaskInput, TaskRef, TaskStatus, Timestamp, limits,
};
use conveyor_store::Result;
use conveyor_store::port::{Claim, ClaimedTask, RunKey};
use futures::{StreamExt, stream};

const CLAIM: &str = "SET st = :processing, tok = :token, sa = :now, ua = :now, cl = cl + :one";
/// Not early, and not under this very token: an answer that was lost is told from another's claim.
const CLAIMABLE: &str = "attribute_exists(pk) AND st < :terminal AND (attribute_not_exists(tok) OR tok <> :token) \
     AND (st = :processing OR nb <= :now OR nb > :far)";

/// Of a row that cannot be read, whatever it holds: unless it is surely terminal, it is claimed to be failed.
const CLAIM_DAMAGED: &str =
    "SET st = :processing, tok = :token, sa = :now, ua = :now, cl = :one, att = :zero, nb = :zero";
const CLAIMABLE_DAMAGED: &str =
    "attribute_exists(pk) AND attribute_not_exists(gup) AND NOT st IN (:successful, :failed)";

/// How many claims that came to nothing the row must have.
#[derive(Clone, Copy, Debug)]
enum Claims {
    Below(u32),
    AtLeast(u32),
    /// Nobody knows: the row cannot be read.
    Unreadable,
}

#[derive(Clone, Copy, Debug)]
struct Wanted {
    key: RunKey,
    task: TaskRef,
    token: ClaimToken,
    now: Timestamp,
}

/// What came of an update.
enum Tried {
    Changed(Item),
    /// The row as it is; `None` if there is none.
    Refused(Option<Item>),
}

impl Table {
    pub async fn claim_each(
        &self,
        key: RunKey,
        claims: Vec<(TaskRef, ClaimToken)>,
        claims_max: u32,
        now: Timestamp,
    ) -> Result<Vec<Result<Claim>>> {
        // Asked once for all of them. One that is stopped right after is like one whose tasks were in flight.
        let run = self.find_run(key).await?.filter(|row| row.run.status == RunStatus::Running);
        let Some(run) = run else { return Ok(vec![Ok(Claim::Gone); claims.len()]) };
        let run = &run;
        let claim = |(task, token): (TaskRef, ClaimToken)| async move {
            if !task.task.belongs_to(run.run.id_seed) || !run.shows(task.task.index()) {
                return Ok(Claim::Gone);
            }
            if run.run.paused {
                return self.leave_task(key, task).await;
            }
            self.claim_task(Wanted { key, task, token, now }, claims_max).await
        };
        Ok(stream::iter(claims.into_iter().map(claim)).buffered(READS_INFLIGHT).collect().await)
    }

    /// What is done is done, and its message may go; everything else waits. A read that is too old only makes it wait.
    async fn leave_task(&self, key: RunKey, task: TaskRef) -> Result<Claim> {
        let row = keys::task(key.job, task.task_shard_count, key.run, task.task);
        let found = self.get_stale(&row).await?;
        let done = found.is_some_and(|item| status(Row(&item)).is_ok_and(TaskStatus::is_terminal));
        Ok(if done { Claim::Terminal } else { Claim::Paused })
    }

    async fn claim_task(&self, wanted: Wanted, claims_max: u32) -> Result<Claim> {
        let mut backoff = self.backoff();
        loop {
            let found = match self.try_claim(wanted, Claims::Below(claims_max)).await? {
                Tried::Changed(item) if TaskRow::decode(&item).is_ok() => {
                    return Ok(Claim::Claimed(claimed(wanted, &item)));
                }
                Tried::Refused(None) => return Ok(Claim::Gone),
                Tried::Refused(Some(item)) | Tried::Changed(item) => item,
            };
            if is_void(&found) {
                return Ok(Claim::Gone);
            }
            let Ok(row) = TaskRow::decode(&found) else { return self.claim_damaged(wanted).await };
            if row.token == Some(wanted.token) && row.status == TaskStatus::Processing {
                // Our own claim, whose answer was lost. It may have been the one that was one too many.
                let task = claimed(wanted, &found);
                return Ok(if row.claims > claims_max {
                    Claim::Exhausted(task)
                } else {
                    Claim::Claimed(task)
                });
            }
            match decide_claim(row.status, row.claims, claims_max, row.not_before, wanted.now) {
                ClaimDecision::Terminal => return Ok(Claim::Terminal),
                ClaimDecision::Early(due) => return Ok(Claim::Early(due)),
                ClaimDecision::Exhausted => {
                    if let Tried::Changed(item) = self.try_claim(wanted, Claims::AtLeast(claims_max)).await? {
                        return Ok(Claim::Exhausted(claimed(wanted, &item)));
                    }
                }
                ClaimDecision::Claim => {}
            }
            // It moved between two looks.
            backoff.wait("a claim").await?;
        }
    }

    async fn claim_damaged(&self, wanted: Wanted) -> Result<Claim> {
        Ok(match self.try_claim(wanted, Claims::Unreadable).await? {
            Tried::Changed(_) => {
                tracing::error!(run = %wanted.key.run, task = %wanted.task.task, "a task cannot be read and fails");
                let (task, token) = (wanted.task.task, wanted.token);
                Claim::Claimed(ClaimedTask { task, token, attempt: 1, input: TaskInput::damaged() })
            }
            Tried::Refused(None) => Claim::Gone,
            Tried::Refused(Some(_)) => Claim::Terminal,
        })
    }

    async fn try_claim(&self, wanted: Wanted, claims: Claims) -> Result<Tried> {
        let mut backoff = self.backoff();
        loop {
            match self.update_claim(wanted, claims).await? {
                Some(tried) => return Ok(tried),
                None => backoff.wait("a claim").await?,
            }
        }
    }

    /// `None` if a transaction has the row at this moment.
    async fn update_claim(&self, wanted: Wanted, claims: Claims) -> Result<Option<Tried>> {
        let Wanted { key, task, token, now } = wanted;
        let mut values = vec![
            (":processing", number(status_number(TaskStatus::Processing))),
            (":token", number(token.to_stored())),
            (":now", number(now.0)),
            (":one", number(1)),
        ];
        let bounded = |compare: &str| format!("{CLAIMABLE} AND cl {compare} :bound");
        let (expression, condition) = match claims {
            Claims::Below(_) => (CLAIM, bounded("<")),
            Claims::AtLeast(_) => (CLAIM, bounded(">=")),
            Claims::Unreadable => (CLAIM_DAMAGED, CLAIMABLE_DAMAGED.to_owned()),
        };
        match claims {
            Claims::Below(bound) | Claims::AtLeast(bound) => values.extend([
                (":terminal", number(status_number(TaskStatus::Successful))),
                (":far", number(now.after(limits::NOT_BEFORE_MAX).0)),
                (":bound", number(bound)),
            ]),
            Claims::Unreadable => values.extend([
                (":successful", number(status_number(TaskStatus::Successful))),
                (":failed", number(status_number(TaskStatus::Failed))),
                (":zero", number(0)),
            ]),
        }
        let row = keys::task(key.job, task.task_shard_count, key.run, task.task);
        let values = values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let answer = self
            .dynamodb
            .update_item()
            .table_name(&self.name)
            .set_key(Some(row.attributes()))
            .update_expression(expression)
            .condition_expression(condition)
            .set_expression_attribute_values(Some(values))
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await;
        match answer {
            Ok(answer) => {
                count_capacity("UpdateItem", "write", answer.consumed_capacity());
                Ok(Some(Tried::Changed(answer.attributes.unwrap_or_default())))
            }
            Err(error) => match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(refused)) => {
                    Ok(Some(Tried::Refused(refused.item().filter(|item| !item.is_empty()).cloned())))
                }
                Some(UpdateItemError::TransactionConflictException(_)) => Ok(None),
                _ => Err(self.unavailable("UpdateItem", &error)),
            },
        }
    }
}

/// One whose input cannot be read is claimed as damaged, so that it fails and its run ends.
fn claimed(wanted: Wanted, item: &Item) -> ClaimedTask {
    let row = Row(item);
    ClaimedTask {
        task: wanted.task.task,
        token: wanted.token,
        attempt: row.number("att").unwrap_or(0) + 1,
        input: row.json("inp").unwrap_or_else(|_| TaskInput::damaged()),
    }
}
