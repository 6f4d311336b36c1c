//! Claims (SPEC 6.3): one conditional update a task, decided by the row itself.

use super::item::{Item, Row, number};
use super::jobs::READS_INFLIGHT;
use super::tasks::{TaskRow, status_number};
use super::{Table, keys};
use crate::client::count_capacity;
use crate::error::unavailable;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{ReturnConsumedCapacity, ReturnValue, ReturnValuesOnConditionCheckFailure};
use conveyor_domain::message::TaskRef;
use conveyor_domain::task::{ClaimDecision, decide_claim};
use conveyor_domain::{ClaimToken, RunStatus, TaskStatus, Timestamp, limits};
use conveyor_store::Result;
use conveyor_store::port::{Claim, ClaimedTask, RunKey};
use futures::{StreamExt, stream};
use std::time::Duration;

const CLAIM: &str = "SET st = :processing, tok = :token, sa = :now, ua = :now, cl = cl + :one";
/// Not early, and not under this very token: an answer that was lost is told from another's claim.
const CLAIMABLE: &str = "attribute_exists(pk) AND st < :terminal AND (attribute_not_exists(tok) OR tok <> :token) \
     AND (st = :processing OR nb <= :now OR nb > :far)";

/// When a message comes back whose task could not be claimed.
const CLAIM_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How many claims that came to nothing the row must have.
#[derive(Clone, Copy, Debug)]
enum Claims {
    Below(u32),
    AtLeast(u32),
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
    pub async fn claim_tasks(
        &self,
        key: RunKey,
        claims: Vec<(TaskRef, ClaimToken)>,
        claims_max: u32,
        now: Timestamp,
    ) -> Result<Vec<Claim>> {
        // Asked once for all of them. One that is stopped right after is like one whose tasks were in flight.
        let run = self.find_run(key).await?.filter(|row| row.run.status == RunStatus::Running);
        let Some(run) = run else { return Ok(vec![Claim::Gone; claims.len()]) };
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
        let answers: Vec<Result<Claim>> =
            stream::iter(claims.into_iter().map(claim)).buffered(READS_INFLIGHT).collect().await;
        if answers.iter().all(Result::is_err) {
            return answers.into_iter().collect();
        }
        // One that could not be claimed must not cost the others theirs: it comes back by itself.
        let or_later = |answer: Result<Claim>| {
            answer.unwrap_or_else(|error| {
                tracing::warn!(run = %key.run, %error, "a task could not be claimed");
                Claim::Early(now.after(CLAIM_AGAIN_AFTER))
            })
        };
        Ok(answers.into_iter().map(or_later).collect())
    }

    /// What is done is done, and its message may go; everything else waits. A read that is too old only makes it wait.
    async fn leave_task(&self, key: RunKey, task: TaskRef) -> Result<Claim> {
        let row = keys::task(key.job, task.task_shard_count, key.run, task.task);
        let found = self.get_stale(&row).await?.as_ref().map(TaskRow::decode).transpose()?;
        let done = found.is_some_and(|row| row.status.is_terminal());
        Ok(if done { Claim::Terminal } else { Claim::Paused })
    }

    async fn claim_task(&self, wanted: Wanted, claims_max: u32) -> Result<Claim> {
        let mut backoff = self.backoff();
        loop {
            let found = match self.try_claim(wanted, Claims::Below(claims_max)).await? {
                Tried::Changed(item) => return Ok(Claim::Claimed(claimed(wanted, &item)?)),
                Tried::Refused(None) => return Ok(Claim::Gone),
                Tried::Refused(Some(item)) => item,
            };
            let row = TaskRow::decode(&found)?;
            if row.token == Some(wanted.token) && row.status == TaskStatus::Processing {
                // Our own claim, whose answer was lost. It may have been the one that was one too many.
                let task = claimed(wanted, &found)?;
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
                        return Ok(Claim::Exhausted(claimed(wanted, &item)?));
                    }
                }
                ClaimDecision::Claim => {}
            }
            // It moved between two looks.
            backoff.wait("a claim").await?;
        }
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
        let (compare, bound) = match claims {
            Claims::Below(max) => ("cl < :bound", max),
            Claims::AtLeast(max) => ("cl >= :bound", max),
        };
        let row = keys::task(key.job, task.task_shard_count, key.run, task.task);
        let answer = self
            .dynamodb
            .update_item()
            .table_name(&self.name)
            .set_key(Some(row.attributes()))
            .update_expression(CLAIM)
            .condition_expression(format!("{CLAIMABLE} AND {compare}"))
            .expression_attribute_values(":processing", number(status_number(TaskStatus::Processing)))
            .expression_attribute_values(":terminal", number(status_number(TaskStatus::Successful)))
            .expression_attribute_values(":token", number(token.to_stored()))
            .expression_attribute_values(":now", number(now.0))
            .expression_attribute_values(":far", number(now.after(limits::NOT_BEFORE_MAX).0))
            .expression_attribute_values(":one", number(1))
            .expression_attribute_values(":bound", number(bound))
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
                _ => Err(unavailable("UpdateItem", &error)),
            },
        }
    }
}

fn claimed(wanted: Wanted, item: &Item) -> Result<ClaimedTask> {
    let row = Row(item);
    let attempts: u32 = row.number("att")?;
    Ok(ClaimedTask {
        task: wanted.task.task,
        token: wanted.token,
        attempt: attempts + 1,
        input: row.json("inp")?,
    })
}
