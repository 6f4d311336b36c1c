//! Task rows: put if absent, claim, settle with its count, read.

use super::codec::{
    self, corrupt, failure_class, from_json, index_of, task_key, task_status, task_status_code, to_json,
};
use super::reader::Lane;
use super::runs::{self, StoredRun};
use super::{Embedded, restore, scan, spans};
use crate::port::{
    self, Claim, ClaimedTask, Documents, Error, Page, Reader, Result, RunKey, Settle, SettleGroup, Settled,
    TaskStore, TasksQuery,
};
use async_trait::async_trait;
use conveyor_domain::job::rerun::Inherited;
use conveyor_domain::job::task::decide_claim;
use conveyor_domain::{
    Attempt, ClaimDecision, ClaimToken, Counts, Damage, Outcome, Problem, ReplayedTask, RunId, RunStatus,
    Spend, Task, TaskId, TaskInput, TaskRef, TaskStatus, Timestamp, WorkerId, limits,
};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::de::DeserializeOwned;

const PUT: &str = "INSERT OR IGNORE INTO tasks
    (task_key, status, attempts, claims, not_before_ms, created_ms, updated_ms, input)
    VALUES (?1, 0, 0, 0, 0, ?2, ?2, ?3)";

const PUT_INHERITED: &str = "INSERT OR IGNORE INTO tasks
    (task_key, status, attempts, claims, not_before_ms, created_ms, updated_ms, input, result, error, class, inherited)
    VALUES (?1, ?4, 0, 0, 0, ?2, ?2, ?3, ?5, ?6, ?7, ?8)";

/// A row as it is stored.
#[derive(Debug)]
pub struct EncodedTask {
    index: u32,
    input: String,
    inherited: Option<EncodedEnd>,
}

impl EncodedTask {
    fn bytes(&self) -> usize {
        self.input.len() + self.inherited.as_ref().map_or(0, EncodedEnd::bytes)
    }
}

/// The end that a row is written with.
#[derive(Debug)]
struct EncodedEnd {
    status: i64,
    end: End,
    from: String,
}

impl EncodedEnd {
    fn bytes(&self) -> usize {
        let documents = self.end.result.iter().chain(&self.end.error);
        documents.map(String::len).sum::<usize>() + self.from.len()
    }
}

pub fn encode<'a>(rows: impl Iterator<Item = (u32, &'a TaskInput)>) -> Result<Vec<EncodedTask>> {
    rows.map(|(index, input)| Ok(EncodedTask { index, input: to_json(input)?, inherited: None })).collect()
}

pub fn encode_replayed(tasks: &[ReplayedTask]) -> Result<Vec<EncodedTask>> {
    let end = |inherited: &Inherited| -> Result<EncodedEnd> {
        let outcome = inherited.end.outcome();
        let status = task_status_code(outcome.status());
        Ok(EncodedEnd { status, end: End::of(&outcome)?, from: to_json(&inherited.from)? })
    };
    let encode = |task: &ReplayedTask| {
        let inherited = task.inherited.as_ref().map(end).transpose()?;
        Ok(EncodedTask { index: task.index, input: to_json(&task.input)?, inherited })
    };
    tasks.iter().map(encode).collect()
}

/// Makes these the rows from `first` on.
pub fn shift(rows: &mut [EncodedTask], first: u32) {
    rows.iter_mut().for_each(|row| row.index += first);
}

/// Whether writing these takes long enough to wait for a turn (SPEC 6.28).
pub fn are_heavy(rows: &[EncodedTask]) -> bool {
    rows.len() >= limits::HEAVY_WRITE_ROWS
        || rows.iter().map(EncodedTask::bytes).sum::<usize>() >= limits::HEAVY_WRITE_BYTES
}

/// Writes the rows that are missing, and sends the refs of exactly those. The caller is inside a transaction.
pub fn put(connection: &Connection, stored: &StoredRun, rows: &[EncodedTask], now: Timestamp) -> Result<()> {
    let fresh = put_rows(connection, stored.key, rows, now)?;
    spans::enqueue(connection, stored.run.id, stored.run.id_seed, fresh.into_iter(), now)
}

/// Writes the rows that are missing, and returns the indexes of those that are tasks to be done.
pub fn put_rows(
    connection: &Connection,
    run_key: i64,
    rows: &[EncodedTask],
    now: Timestamp,
) -> Result<Vec<u32>> {
    let mut statement = connection.prepare_cached(PUT)?;
    let mut with_end = connection.prepare_cached(PUT_INHERITED)?;
    let mut fresh = Vec::with_capacity(rows.len());
    for row in rows {
        let key = task_key(run_key, row.index);
        match &row.inherited {
            None if statement.execute(params![key, now.0, row.input])? == 1 => fresh.push(row.index),
            None => {}
            Some(EncodedEnd { status, end: End { result, error, class }, from }) => {
                with_end.execute(params![key, now.0, row.input, status, result, error, class, from])?;
            }
        }
    }
    Ok(fresh)
}

/// What a claim needs to know of a row.
struct Claimable {
    status: TaskStatus,
    attempts: u32,
    claims: u32,
    not_before: Timestamp,
    input: TaskInput,
}

impl Claimable {
    /// Whatever cannot be read, the task is claimed as damaged, so that it fails and its run ends.
    fn decode(row: &Row<'_>) -> Claimable {
        let mut damage = Damage::default();
        let status = row.get(0).map_err(Error::from).and_then(task_status);
        let status = damage.read("status", status).unwrap_or(TaskStatus::Pending);
        let attempts = damage.read("attempts", row.get(1)).unwrap_or(0);
        let claims = damage.read("claims", row.get(2)).unwrap_or(0);
        let not_before = Timestamp(damage.read("not_before", row.get(3)).unwrap_or(0));
        let input = damage.read("input", json_at(row, 4)).filter(|_| damage.parts().is_none());
        Claimable { status, attempts, claims, not_before, input: input.unwrap_or_else(TaskInput::damaged) }
    }
}

fn json_at<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<T> {
    from_json(row.get_ref(column)?.as_str().map_err(|_| corrupt("document"))?)
}

fn find_json_at<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<Option<T>> {
    if row.get_ref(column)? == ValueRef::Null { Ok(None) } else { json_at(row, column).map(Some) }
}

fn claim_one(
    connection: &Connection,
    stored: &StoredRun,
    (task_ref, token): (TaskRef, ClaimToken),
    claims_max: u32,
    now: Timestamp,
) -> Result<Claim> {
    let task = task_ref.task;
    if !task.belongs_to(stored.run.id_seed) {
        return Ok(Claim::Gone);
    }
    let key = task_key(stored.key, task.index());
    let mut read = connection.prepare_cached(
        "SELECT status, attempts, claims, not_before_ms, input FROM tasks WHERE task_key = ?1",
    )?;
    let row = read.query_row([key], |row| Ok(Claimable::decode(row))).optional()?;
    let Some(Claimable { status, attempts, claims, not_before, input }) = row else { return Ok(Claim::Gone) };
    let decision = decide_claim(status, claims, claims_max, not_before, now);
    match decision {
        ClaimDecision::Terminal => return Ok(Claim::Terminal),
        ClaimDecision::Early(_) | ClaimDecision::Claim | ClaimDecision::Exhausted if stored.run.paused => {
            return Ok(Claim::Paused);
        }
        ClaimDecision::Early(due) => return Ok(Claim::Early(due)),
        ClaimDecision::Claim | ClaimDecision::Exhausted => {}
    }
    connection
        .prepare_cached(
            "UPDATE tasks SET status = 1, claims = claims + 1, claim_token = ?2, started_ms = ?3, updated_ms = ?3
             WHERE task_key = ?1",
        )?
        .execute(params![key, token.to_stored(), now.0])?;
    let claimed = ClaimedTask { task, token, attempt: attempts + 1, input };
    Ok(if decision == ClaimDecision::Exhausted { Claim::Exhausted(claimed) } else { Claim::Claimed(claimed) })
}

/// What an outcome writes into a row.
#[derive(Debug)]
pub struct End {
    pub result: Option<String>,
    pub error: Option<String>,
    pub class: Option<i64>,
}

impl End {
    pub fn of(outcome: &Outcome) -> Result<End> {
        Ok(match outcome {
            Outcome::Successful(result) => End { result: Some(to_json(result)?), error: None, class: None },
            Outcome::Failed { class, problem } => {
                End { result: None, error: Some(to_json(problem)?), class: Some(*class as i64) }
            }
            Outcome::Retry { .. } | Outcome::Release => End { result: None, error: None, class: None },
        })
    }
}

/// How an outcome that was applied is counted.
pub fn count_end(counts: &mut Counts, outcome: &Outcome) {
    match outcome {
        Outcome::Successful(_) => counts.successful += 1,
        Outcome::Failed { class, .. } => counts.add_failed(*class),
        Outcome::Retry { .. } | Outcome::Release => {}
    }
}

/// Changes the row if it is still under our token. The answer says whether it did, or had already.
fn settle_one(
    connection: &Connection,
    stored: &StoredRun,
    settle: &Settle,
    now: Timestamp,
) -> Result<Settled> {
    let key = task_key(stored.key, settle.task.index());
    let token = settle.token.to_stored();
    let End { result, error, class } = End::of(&settle.outcome)?;
    let charged = settle.charged();
    let spend = (!charged.is_zero()).then(|| to_json(&charged)).transpose()?;
    let (not_before, attempted) = match &settle.outcome {
        Outcome::Successful(_) | Outcome::Failed { .. } => (0, true),
        Outcome::Retry { problem, not_before } => {
            keep_attempt(connection, key, token, (problem, &spend), now)?;
            (not_before.0, true)
        }
        Outcome::Release => (0, false),
    };
    let status = settle.outcome.status();
    // An attempt that reached an end clears the count of those that did not; a release takes its own claim back.
    let claims = if attempted { "0" } else { "claims - 1" };
    let changed = connection
        .prepare_cached(&format!(
            "UPDATE tasks SET status = ?3, attempts = attempts + ?4, not_before_ms = ?5, result = ?6, error = ?7,
                updated_ms = ?8, class = ?9, spend = ?10, claims = {claims}
             WHERE task_key = ?1 AND claim_token = ?2 AND status = 1"
        ))?
        .execute(params![
            key,
            token,
            task_status_code(status),
            attempted,
            not_before,
            result,
            error,
            now.0,
            class,
            spend
        ])?;
    if changed == 1 {
        return Ok(Settled::Applied);
    }
    let mut read = connection
        .prepare_cached("SELECT 1 FROM tasks WHERE task_key = ?1 AND claim_token = ?2 AND status = ?3")?;
    let ours = read.exists(params![key, token, task_status_code(status)])?;
    Ok(if ours { Settled::Already } else { Settled::Lost })
}

/// The last attempt lives on the task row; an attempt that will be followed by another is moved out of its way.
fn keep_attempt(
    connection: &Connection,
    key: i64,
    token: i64,
    (problem, spend): (&Problem, &Option<String>),
    now: Timestamp,
) -> Result<()> {
    connection
        .prepare_cached(
            "INSERT OR IGNORE INTO attempts (task_key, attempt, started_ms, ended_ms, error, spend)
             SELECT task_key, attempts + 1, started_ms, ?3, ?4, ?5 FROM tasks
             WHERE task_key = ?1 AND claim_token = ?2 AND status = 1",
        )?
        .execute(params![key, token, now.0, to_json(problem)?, spend])?;
    Ok(())
}

fn settle(connection: &Connection, group: &SettleGroup, now: Timestamp) -> Result<Vec<Settled>> {
    let Some(stored) = runs::find(connection, group.key)? else {
        return Ok(vec![Settled::Lost; group.settles.len()]);
    };
    let (mut delta, mut spend) = (Counts::default(), Spend::default());
    let mut answers = Vec::with_capacity(group.settles.len());
    for settle in &group.settles {
        let answer = settle_one(connection, &stored, settle, now)?;
        if answer == Settled::Applied {
            count_end(&mut delta, &settle.outcome);
            spend = spend.plus(settle.charged());
        }
        answers.push(answer);
    }
    runs::count(connection, stored.key, group.worker, delta, spend)?;
    Ok(answers)
}

pub const COLUMNS: &str = "task_key, status, created_ms, updated_ms, input, result, error, class, inherited";

pub fn decode(seed: RunId, row: &Row<'_>) -> Result<Task> {
    let (id, status) = (TaskId::of(seed, index_of(row.get(0)?)), task_status(row.get(1)?)?);
    let times = (Timestamp(row.get(2)?), Timestamp(row.get(3)?));
    let class = row.get::<_, Option<i64>>(7).unwrap_or_default().and_then(failure_class);
    Ok(documents(row).task(id, status, class, times))
}

/// The documents of a row ([`COLUMNS`]).
pub fn documents(row: &Row<'_>) -> Documents {
    Documents::of(json_at(row, 4), find_json_at(row, 5), find_json_at(row, 6), find_json_at(row, 8))
}

fn attempts(connection: &Connection, key: RunKey, task: TaskId) -> Result<Option<Vec<Attempt>>> {
    let Some(stored) = runs::find(connection, key)?.filter(|s| task.belongs_to(s.run.id_seed)) else {
        return Ok(None);
    };
    let key = task_key(stored.key, task.index());
    let mut last = connection.prepare_cached(
        "SELECT attempts, started_ms, updated_ms, error, spend, status FROM tasks WHERE task_key = ?1",
    )?;
    let last = last.query_row([key], |row| Ok((attempt(row), row.get::<_, i64>(5)?))).optional()?;
    let Some((last, status)) = last else { return Ok(None) };
    let mut earlier = connection.prepare_cached(
        "SELECT attempt, started_ms, ended_ms, error, spend FROM attempts WHERE task_key = ?1 ORDER BY attempt",
    )?;
    let mut history = codec::readable("attempt", &mut earlier, [key], u32::MAX, attempt)?;
    if task_status(status)?.is_terminal() {
        history.extend(port::readable("attempt", || task.to_string(), last)?);
    }
    Ok(Some(history))
}

/// Its number, when it began and ended, its error, and what it cost.
fn attempt(row: &Row<'_>) -> Result<Attempt> {
    let ended: i64 = row.get(2)?;
    let mut damage = Damage::default();
    let error = damage.read("error", find_json_at(row, 3)).flatten();
    Ok(Attempt {
        number: row.get(0)?,
        started: Timestamp(row.get::<_, Option<i64>>(1)?.unwrap_or(ended)),
        ended: Timestamp(ended),
        error: error.or_else(|| damage.problem()),
        spend: find_json_at(row, 4).unwrap_or_default().unwrap_or_default(),
    })
}

#[async_trait]
impl TaskStore for Embedded {
    async fn put_tasks(&self, key: RunKey, rows: Vec<(u32, TaskInput)>, now: Timestamp) -> Result<()> {
        let rows = encode(rows.iter().map(|(index, input)| (*index, input)))?;
        self.write(move |connection| {
            // What is on its way out must not grow again behind whoever removes it.
            let stored = runs::find(connection, key)?.filter(|s| s.run.status != RunStatus::Deleted);
            let stored = stored.ok_or(Error::NotFound)?;
            put(connection, &stored, &rows, now)
        })
        .await?;
        self.announce();
        Ok(())
    }

    async fn claim(
        &self,
        key: RunKey,
        claims: Vec<(TaskRef, ClaimToken)>,
        claims_max: u32,
        now: Timestamp,
    ) -> Result<Vec<Claim>> {
        self.write(move |connection| {
            let running = runs::find(connection, key)?.filter(|s| s.run.status == RunStatus::Running);
            let Some(stored) = running else { return Ok(vec![Claim::Gone; claims.len()]) };
            claims.into_iter().map(|claim| claim_one(connection, &stored, claim, claims_max, now)).collect()
        })
        .await
    }

    async fn settle(&self, group: SettleGroup, now: Timestamp) -> Result<Vec<Settled>> {
        self.write(move |connection| settle(connection, &group, now)).await
    }

    async fn restore(
        &self,
        key: RunKey,
        worker: WorkerId,
        ends: Vec<(TaskId, Outcome)>,
        now: Timestamp,
    ) -> Result<Vec<bool>> {
        self.write(move |connection| restore::restore(connection, key, worker, &ends, now)).await
    }

    async fn task(&self, key: RunKey, task: TaskId) -> Result<Option<Task>> {
        self.read(Lane::Points, move |connection| {
            let Some(stored) = runs::find(connection, key)?.filter(|s| task.belongs_to(s.run.id_seed)) else {
                return Ok(None);
            };
            let mut statement =
                connection.prepare_cached(&format!("SELECT {COLUMNS} FROM tasks WHERE task_key = ?1"))?;
            statement
                .query_row([task_key(stored.key, task.index())], |row| Ok(decode(stored.run.id_seed, row)))
                .optional()?
                .transpose()
        })
        .await
    }

    async fn scan_tasks(&self, query: TasksQuery, look: u32, reader: Reader) -> Result<Page<Task, TaskId>> {
        self.read(reader.into(), move |connection| scan::tasks(connection, query, look)).await
    }

    async fn attempts(&self, key: RunKey, task: TaskId) -> Result<Option<Vec<Attempt>>> {
        self.read(Lane::Points, move |connection| attempts(connection, key, task)).await
    }
}
