//! Task rows as they are stored, and the port that speaks of them.

use super::insert::RowPlace;
use super::item::{Item, Row, corrupt, readable_items};
use super::jobs::refs;
use super::read::Range;
use super::transact::Condition;
use super::{Table, keys};
use async_trait::async_trait;
use conveyor_domain::{
    Attempt, CallerId, ClaimToken, Damage, FailureClass, InheritedFrom, Outcome, Problem, ResultRef,
    RunStatus, Task, TaskId, TaskInput, TaskRef, TaskStatus, Timestamp, WorkerId,
};
use conveyor_store::port::{Claim, Page, Reader, RunKey, SettleGroup, Settled, TaskStore, TasksQuery};
use conveyor_store::{Error, Result};

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
    let created: i64 = row.number("ca")?;
    let documents = Documents::decode(row);
    Ok(Task {
        id: task_id(item)?,
        status: status(row)?,
        created: Timestamp(created),
        updated: Timestamp(row.find_number("ua")?.unwrap_or(created)),
        error: documents.error.or_else(|| documents.damage.problem()),
        input: documents.input,
        result: documents.result,
        class: failure_class(row).unwrap_or_default(),
        inherited: documents.inherited,
    })
}

/// The documents of a row. One that cannot be read costs only itself.
pub struct Documents {
    pub input: TaskInput,
    pub result: Option<ResultRef>,
    pub error: Option<Problem>,
    pub inherited: Option<InheritedFrom>,
    pub damage: Damage,
}

impl Documents {
    pub fn decode(row: Row<'_>) -> Documents {
        let mut damage = Damage::default();
        Documents {
            input: damage.read("input", row.json("inp")).unwrap_or_else(TaskInput::damaged),
            result: damage.read("result", row.find_json("res")).flatten(),
            error: damage.read("error", row.find_json("err")).flatten(),
            inherited: damage.read("source run", row.find_json("inh")).flatten(),
            damage,
        }
    }
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
        self.claim_tasks(key, claims, claims_max, now).await
    }

    async fn settle(&self, group: SettleGroup, now: Timestamp) -> Result<Vec<Settled>> {
        self.settle_group(group, now).await
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
