//! Task rows as they are stored, and the port that speaks of them.

use super::circuits::is_unavailable;
use super::insert::RowPlace;
use super::item::{Item, Row, corrupt, readable_items};
use super::jobs::refs;
use super::read::Range;
use super::transact::Condition;
use super::{Table, keys};
use async_trait::async_trait;
use conveyor_domain::{
    Attempt, CallerId, ClaimToken, Damage, FailureClass, Outcome, RunStatus, Task, TaskId, TaskInput,
    TaskRef, TaskStatus, Timestamp, WorkerId,
};
use conveyor_store::port::{
    Claim, Documents, Page, Reader, RunKey, SettleGroup, Settled, TaskStore, TasksQuery,
};
use conveyor_store::{Error, Result};
use std::time::Duration;

/// When a message comes back whose task could not be claimed.
const CLAIM_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The number that a status is stored as; terminal ones are the larger.
pub fn status_number(status: TaskStatus) -> u8 {
    match status {
        TaskStatus::Pending => 0,
        TaskStatus::Processing => 1,
        TaskStatus::Successful => 2,
        TaskStatus::Failed => 3,
    }
}

/// What claims and settles need to know of a row.
#[derive(Clone, Debug)]
pub struct TaskRow {
    pub status: TaskStatus,
    pub attempts: u32,
    pub claims: u32,
    pub token: Option<ClaimToken>,
    pub not_before: Timestamp,
    pub started: Option<Timestamp>,
}

impl TaskRow {
    pub fn decode(item: &Item) -> Result<TaskRow> {
        let row = Row(item);
        Ok(TaskRow {
            status: status(row)?,
            attempts: row.number("att")?,
            claims: row.number("cl")?,
            token: row.find_number("tok")?.map(ClaimToken::from_stored),
            not_before: Timestamp(row.number("nb")?),
            started: row.find_number("sa")?.map(Timestamp),
        })
    }
}

pub fn status(row: Row<'_>) -> Result<TaskStatus> {
    let code: u8 = row.number("st")?;
    TaskStatus::ALL.into_iter().find(|s| status_number(*s) == code).ok_or_else(|| corrupt("task status"))
}

/// Why it failed, if it did, and an earlier version did not write the row.
pub fn failure_class(row: Row<'_>) -> Result<Option<FailureClass>> {
    let Some(number) = row.find_number::<usize>("fc")? else { return Ok(None) };
    FailureClass::ALL.get(number).copied().map(Some).ok_or_else(|| corrupt("failure class"))
}

pub fn task_id(item: &Item) -> Result<TaskId> {
    let sk = Row(item).text(keys::SK)?;
    sk.rsplit('#').next().and_then(|id| id.parse().ok()).ok_or_else(|| corrupt("task id"))
}

pub fn decode_task(item: &Item) -> Result<Task> {
    let row = Row(item);
    let created = Timestamp(row.number("ca")?);
    let (id, status) = (task_id(item)?, status(row)?);
    let updated = row.find_number("ua")?.map_or(created, Timestamp);
    Ok(documents(row).task(id, status, failure_class(row).unwrap_or_default(), (created, updated)))
}

/// The documents of a row.
pub fn documents(row: Row<'_>) -> Documents {
    Documents::of(row.json("inp"), row.find_json("res"), row.find_json("err"), row.find_json("inh"))
}

/// In the place of a task of an addition that was given up (SPEC 5.4): no row can be put there any more.
pub const VOID: &str = "gup";

pub fn is_void(item: &Item) -> bool {
    item.contains_key(VOID)
}

impl Table {
    /// The row of a task, if it is one that counts.
    async fn find_task(&self, key: RunKey, task: TaskId) -> Result<Option<Item>> {
        let run = self.find_run(key).await?;
        let shown = |run: &super::rows::RunRow| task.belongs_to(run.run.id_seed) && run.shows(task.index());
        let Some(run) = run.filter(shown) else { return Ok(None) };
        let found = self.get(&keys::task(key.job, run.shards, key.run, task)).await?;
        Ok(found.filter(|item| !is_void(item)))
    }

    /// Makes rows up to this index count.
    async fn raise_next_index(&self, key: RunKey, next_index: u32) -> Result<()> {
        let mut backoff = self.backoff();
        loop {
            let mut run = self.find_run(key).await?.ok_or(Error::NotFound)?;
            if run.run.next_index >= next_index {
                return Ok(());
            }
            let seen = Condition::version(run.version);
            (run.run.next_index, run.version) = (next_index, run.version + 1);
            if self.put_if(run.encode()?, seen).await? {
                return Ok(());
            }
            backoff.wait("rows of a run").await?;
        }
    }
}

#[async_trait]
impl TaskStore for Table {
    async fn put_tasks(&self, key: RunKey, rows: Vec<(u32, TaskInput)>, now: Timestamp) -> Result<()> {
        self.latest.learn(now);
        // What is on its way out must not grow again behind whoever removes it.
        let run = self.find_run(key).await?.filter(|row| row.run.status != RunStatus::Deleted);
        let run = run.ok_or(Error::NotFound)?;
        let place = RowPlace { key, seed: run.run.id_seed, shards: run.shards };
        self.insert_tasks(place, &rows, now).await?;
        let indexes = || rows.iter().map(|(index, _)| *index);
        if let Some(last) = indexes().max() {
            self.raise_next_index(key, last + 1).await?;
        }
        let outbox = self.outbox(key, indexes(), now);
        self.write_outbox(&outbox).await?;
        let refs = refs(place.seed, place.shards, indexes());
        // The row of a run does not say whose it is: here each job counts as a caller.
        self.send_refs(CallerId::from_bytes(key.job.to_bytes()), key.run, refs, outbox, now).await;
        Ok(())
    }

    async fn claim(
        &self,
        key: RunKey,
        claims: Vec<(TaskRef, ClaimToken)>,
        claims_max: u32,
        now: Timestamp,
    ) -> Result<Vec<Claim>> {
        let call = self.circuits.pass(key.job)?;
        let answers = self.claim_each(key, claims, claims_max, now).await;
        let is_failed = match &answers {
            Err(error) => is_unavailable(error),
            Ok(answers) => answers.iter().filter_map(|answer| answer.as_ref().err()).any(is_unavailable),
        };
        self.circuits.note(call, is_failed, &self.entropy);
        let answers = answers?;
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

    async fn settle(&self, group: SettleGroup, now: Timestamp) -> Result<Vec<Settled>> {
        let call = self.circuits.pass(group.key.job)?;
        let answers = self.settle_group(group, now).await;
        self.circuits.note(call, answers.as_ref().err().is_some_and(is_unavailable), &self.entropy);
        answers
    }

    async fn restore(
        &self,
        key: RunKey,
        worker: WorkerId,
        ends: Vec<(TaskId, Outcome)>,
        now: Timestamp,
    ) -> Result<Vec<bool>> {
        self.restore_tasks(key, worker, &ends, now).await
    }

    async fn task(&self, key: RunKey, task: TaskId) -> Result<Option<Task>> {
        self.find_task(key, task).await?.as_ref().map(decode_task).transpose()
    }

    async fn scan_tasks(&self, query: TasksQuery, look: u32, _reader: Reader) -> Result<Page<Task, TaskId>> {
        self.page(query, look).await
    }

    async fn attempts(&self, key: RunKey, task: TaskId) -> Result<Option<Vec<Attempt>>> {
        let Some(item) = self.find_task(key, task).await? else { return Ok(None) };
        let row = TaskRow::decode(&item)?;
        let partition = Row(&item).text(keys::PK)?.to_owned();
        let earlier = self.all(&Range::of(partition, &keys::attempts(key.run, task))).await?;
        let attempt = |item: &Item| -> Result<Attempt> {
            let (row, mut damage) = (Row(item), Damage::default());
            let error = damage.read("error", row.find_json("err")).flatten();
            Ok(Attempt {
                number: row.number("no")?,
                started: Timestamp(row.number("sa")?),
                ended: Timestamp(row.number("ea")?),
                error: error.or_else(|| damage.problem()),
                spend: row.find_json("sp").unwrap_or_default().unwrap_or_default(),
            })
        };
        let mut history = readable_items("attempt", &earlier, attempt)?;
        if row.status.is_terminal() {
            // The last attempt is on the row itself.
            let task = decode_task(&item)?;
            let started = row.started.unwrap_or(task.updated);
            let spend = Row(&item).find_json("sp").unwrap_or_default().unwrap_or_default();
            let (number, ended) = (row.attempts, task.updated);
            history.push(Attempt { number, started, ended, error: task.error, spend });
        }
        Ok(Some(history))
    }
}
