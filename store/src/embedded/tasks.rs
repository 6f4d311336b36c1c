//! Task rows: put if absent, claim, settle with its count, read.

use super::codec::{
    corrupt, failure_class, from_json, index_of, task_key, task_status, task_status_code, to_json,
};
use super::runs::{self, StoredRun};
use super::{Embedded, restore, spans};
use crate::port::{
    Claim, ClaimedTask, Error, Result, RunKey, Settle, SettleGroup, Settled, StatusFilter, TaskStore,
    TasksQuery,
};
use async_trait::async_trait;
use conveyor_domain::message::TaskRef;
use conveyor_domain::rerun::{Inherited, ReplayedTask};
use conveyor_domain::run::Counts;
use conveyor_domain::task::{Attempt, ClaimDecision, Outcome, decide_claim};
use conveyor_domain::{
    ClaimToken, Problem, RunId, RunStatus, Spend, Task, TaskId, TaskInput, Timestamp, WorkerId,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

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

/// The end that a row is written with.
#[derive(Debug)]
struct EncodedEnd {
    status: i64,
    end: End,
    from: String,
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

/// Writes the rows that are missing, and sends the refs of exactly those. The caller is inside a transaction.
pub fn put(connection: &Connection, stored: &StoredRun, rows: &[EncodedTask], now: Timestamp) -> Result<()> {
    let mut statement = connection.prepare_cached(PUT)?;
    let mut with_end = connection.prepare_cached(PUT_INHERITED)?;
    let mut fresh = Vec::with_capacity(rows.len());
    for row in rows {
        let key = task_key(stored.key, row.index);
        match &row.inherited {
            None if statement.execute(params![key, now.0, row.input])? == 1 => fresh.push(row.index),
            None => {}
            Some(EncodedEnd { status, end: End { result, error, class }, from }) => {
                with_end.execute(params![key, now.0, row.input, status, result, error, class, from])?;
            }
        }
    }
    // Nobody works on what runs are made of.
    if stored.run.is_template() {
        return Ok(());
    }
    spans::enqueue(connection, stored.run.id, stored.run.id_seed, fresh.into_iter(), now)
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
    let row = read
        .query_row([key], |r| {
            Ok((
                r.get::<_, i64>(0)?,
                r.get::<_, u32>(1)?,
                r.get::<_, u32>(2)?,
                r.get::<_, i64>(3)?,
                r.get::<_, String>(4)?,
            ))
        })
        .optional()?;
    let Some((status, attempts, claims, not_before, input)) = row else { return Ok(Claim::Gone) };
    let decision = decide_claim(task_status(status)?, claims, claims_max, Timestamp(not_before), now);
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
    let claimed = ClaimedTask { task, token, attempt: attempts + 1, input: from_json(&input)? };
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

const COLUMNS: &str = "task_key, status, created_ms, updated_ms, input, result, error, class, inherited";

fn decode(seed: RunId, row: &Row<'_>) -> Result<Task> {
    let text = |column: usize| -> Result<Option<String>> { Ok(row.get(column)?) };
    let input = text(4)?.ok_or_else(|| corrupt("task input"))?;
    Ok(Task {
        id: TaskId::of(seed, index_of(row.get(0)?)),
        status: task_status(row.get(1)?)?,
        created: Timestamp(row.get(2)?),
        updated: Timestamp(row.get(3)?),
        input: from_json(&input)?,
        result: text(5)?.map(|t| from_json(&t)).transpose()?,
        error: text(6)?.map(|t| from_json(&t)).transpose()?,
        class: row.get::<_, Option<i64>>(7)?.and_then(failure_class),
        inherited: text(8)?.map(|t| from_json(&t)).transpose()?,
    })
}

/// The status codes that a filter lets through, as two bounds on the stored number.
fn status_range(filter: StatusFilter) -> (i64, i64) {
    match filter {
        StatusFilter::All => (0, 3),
        StatusFilter::Unfinished => (0, 1),
        StatusFilter::Successful => (2, 2),
        StatusFilter::Failed => (3, 3),
    }
}

fn page(connection: &Connection, query: TasksQuery) -> Result<Vec<Task>> {
    let stored = runs::find_listed(connection, query.key)?.ok_or(Error::NotFound)?;
    let first = match query.after {
        None => task_key(stored.key, 0),
        Some(task) => task_key(stored.key, task.index()) + 1,
    };
    let (low, high) = status_range(query.filter);
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM tasks WHERE task_key >= ?1 AND task_key < ?2 AND status BETWEEN ?3 AND ?4
         ORDER BY task_key LIMIT ?5"
    ))?;
    let end = task_key(stored.key + 1, 0);
    let rows = statement
        .query_map(params![first, end, low, high, query.limit], |row| Ok(decode(stored.run.id_seed, row)))?;
    let (mut tasks, mut bytes) = (Vec::new(), 0);
    for row in rows {
        let task = row??;
        bytes += task.weight();
        tasks.push(task);
        if bytes >= query.max_bytes {
            break;
        }
    }
    Ok(tasks)
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
    let rows = earlier.query_map([key], |row| Ok(attempt(row)))?;
    let mut history = rows.map(|row| row?).collect::<Result<Vec<Attempt>>>()?;
    if task_status(status)?.is_terminal() {
        history.push(last?);
    }
    Ok(Some(history))
}

/// Its number, when it began and ended, its error, and what it cost.
fn attempt(row: &Row<'_>) -> Result<Attempt> {
    let ended: i64 = row.get(2)?;
    let text = |column: usize| -> Result<Option<String>> { Ok(row.get(column)?) };
    Ok(Attempt {
        number: row.get(0)?,
        started: Timestamp(row.get::<_, Option<i64>>(1)?.unwrap_or(ended)),
        ended: Timestamp(ended),
        error: text(3)?.map(|text| from_json(&text)).transpose()?,
        spend: text(4)?.map(|text| from_json(&text)).transpose()?.unwrap_or_default(),
    })
}

#[async_trait]
impl TaskStore for Embedded {
    async fn put_tasks(
        &self,
        key: RunKey,
        rows: Vec<(u32, TaskInput)>,
        now: Timestamp,
    ) -> Result<Vec<TaskRef>> {
        let rows = encode(rows.iter().map(|(index, input)| (*index, input)))?;
        self.write(move |connection| {
            // What is on its way out must not grow again behind whoever removes it.
            let stored = runs::find(connection, key)?.filter(|s| s.run.status != RunStatus::Deleted);
            let stored = stored.ok_or(Error::NotFound)?;
            put(connection, &stored, &rows, now)
        })
        .await?;
        self.announce();
        Ok(Vec::new())
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
        self.read(move |connection| {
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

    async fn tasks(&self, query: TasksQuery) -> Result<Vec<Task>> {
        self.read(move |connection| page(connection, query)).await
    }

    async fn attempts(&self, key: RunKey, task: TaskId) -> Result<Option<Vec<Attempt>>> {
        self.read(move |connection| attempts(connection, key, task)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::TaskStatus;

    #[test]
    fn the_stored_range_of_a_filter_is_what_it_admits() {
        for filter in
            [StatusFilter::All, StatusFilter::Successful, StatusFilter::Failed, StatusFilter::Unfinished]
        {
            let (low, high) = status_range(filter);
            for status in TaskStatus::ALL {
                assert_eq!((low..=high).contains(&task_status_code(status)), filter.admits(status));
            }
        }
    }
}
