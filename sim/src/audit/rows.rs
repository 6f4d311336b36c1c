//! SPEC 3.1, 3.2 and 3.5 on the rows: every accepted task is one row, in order, and one that ended never changes again.

use crate::audit::read;
use crate::model::JobModel;
use crate::violation::{Check, Rule, require};
use crate::world::World;
use conveyor_domain::{Outcome, Task, TaskId, TaskStatus, limits};
use conveyor_store::port::{BlobKey, JobView, StatusFilter, TasksQuery};

const PAGE_LIMITS: [u32; 4] = [8, 20, 40, 1_000];
const FILTERS: [StatusFilter; 3] = [StatusFilter::Successful, StatusFilter::Failed, StatusFilter::Unfinished];

/// All rows that a filter admits, page by page.
async fn pages(world: &World, job: &JobModel, filter: StatusFilter, limit: u32) -> Check<Vec<Task>> {
    let mut rows: Vec<Task> = Vec::new();
    loop {
        let after = rows.last().map(|row| row.id);
        let query = TasksQuery { key: job.key, filter, after, limit, max_bytes: usize::MAX };
        let page = read("a page of tasks", world.truth.store.tasks(query).await)?;
        let full = page.len() == limit as usize;
        rows.extend(page);
        let ordered = rows.is_sorted_by(|a, b| a.id < b.id);
        require(ordered, Rule::Reads, || {
            format!("{job}: a page of {limit} is out of order after {after:?}")
        })?;
        if !full {
            return Ok(rows);
        }
    }
}

pub async fn scan(world: &World, number: usize) -> Check<Vec<Task>> {
    let turn = world.turn(number);
    let limit = PAGE_LIMITS[turn % PAGE_LIMITS.len()];
    pages(world, &world.model.jobs[number], StatusFilter::All, limit).await
}

/// Index by index, what was accepted.
pub fn dense(job: &JobModel, view: &JobView, rows: &[Task]) -> Check {
    let total = view.latest_run().stats.total as usize;
    require(rows.len() == total, Rule::Durable, || {
        format!("{job} has {} rows, and {total} tasks were accepted", rows.len())
    })?;
    let expected = job.tasks.keys().map(|index| TaskId::of(job.key.run, *index));
    require(rows.iter().map(|row| row.id).eq(expected), Rule::OnceEach, || {
        format!("{job}: the rows do not have the ids of the {total} accepted indexes")
    })
}

/// Each row by itself, against what was accepted, acknowledged and seen before.
pub fn check(job: &mut JobModel, rows: &[Task]) -> Check {
    for row in rows {
        let index = row.id.index();
        let accepted = job.tasks.get(&index);
        require(accepted == Some(&row.input), Rule::Durable, || {
            format!("{job}: task {index} is {:?}, and {accepted:?} was accepted", row.input)
        })?;
        let whole = match row.status {
            TaskStatus::Pending | TaskStatus::Processing => row.result.is_none() && row.error.is_none(),
            TaskStatus::Successful => row.result.is_some() && row.error.is_none(),
            TaskStatus::Failed => row.result.is_none() && row.error.is_some(),
        };
        require(whole, Rule::Reads, || format!("{job}: the status of task {index} belies its row: {row:?}"))?;
        shows_its_settle(job, row)?;
        match job.terminal.get(&index) {
            Some(ended) => require(ended == row, Rule::Replay, || {
                format!("{job}: task {index} had ended as {ended:?} and is now {row:?}")
            })?,
            None if row.status.is_terminal() => {
                job.terminal.insert(index, row.clone());
            }
            None => {}
        }
    }
    Ok(())
}

fn shows_its_settle(job: &JobModel, row: &Task) -> Check {
    let Some(settle) = job.settled.get(&row.id.index()) else { return Ok(()) };
    let shown = match &settle.outcome {
        Outcome::Successful(result) => row.result.as_ref() == Some(result),
        Outcome::Failed { problem, .. } => row.error.as_ref() == Some(problem),
        Outcome::Retry { .. } | Outcome::Release => true,
    };
    require(shown && row.status == settle.outcome.status(), Rule::Durable, || {
        format!("{job}: {settle:?} was acknowledged, and the row is {row:?}")
    })
}

/// The same rows read in other ways: filtered, one by one, with their history and their bodies. A part at a time: over a
/// run every row has its turn.
pub async fn other_reads(world: &World, number: usize, rows: &[Task]) -> Check {
    let (job, turn) = (&world.model.jobs[number], world.turn(number));
    let filter = FILTERS[turn % FILTERS.len()];
    let filtered = pages(world, job, filter, PAGE_LIMITS[turn % PAGE_LIMITS.len()]).await?;
    let expected = rows.iter().filter(|row| filter.admits(row.status));
    require(filtered.iter().eq(expected), Rule::Reads, || {
        format!("{job}: the pages of {filter:?} are not the rows that it admits")
    })?;
    if rows.is_empty() {
        return Ok(());
    }
    let row = &rows[turn % rows.len()];
    let alone = read("a task", world.truth.store.task(job.key, row.id).await)?;
    require(alone.as_ref() == Some(row), Rule::Reads, || {
        format!("{job}: task {} is {row:?} in a page and {alone:?} by itself", row.id.index())
    })?;
    history(world, job, row).await?;
    body(world, job, row).await
}

/// Attempts are numbered from 1 without gaps, and a task that ended has one.
async fn history(world: &World, job: &JobModel, row: &Task) -> Check {
    let attempts = read("a history", world.truth.store.attempts(job.key, row.id).await)?.unwrap_or_default();
    let numbers = attempts.iter().map(|attempt| attempt.number);
    let count = u32::try_from(attempts.len()).unwrap_or(u32::MAX);
    let last_error = attempts.last().map(|attempt| attempt.error.as_ref());
    let whole = numbers.eq(1..=count)
        && count <= limits::ATTEMPTS_MAX
        && attempts.iter().all(|attempt| attempt.started <= attempt.ended)
        && (!row.status.is_terminal() || last_error == Some(row.error.as_ref()));
    require(whole, Rule::OnceEach, || {
        format!("{job}: the history of task {} is {attempts:?}, and its row {row:?}", row.id.index())
    })
}

/// The body of a task, as the workers of the simulation make it.
pub fn expected_body(task: TaskId) -> String {
    format!("<p>{task}</p>")
}

/// SPEC 6.4: the body was durable before the task was called successful.
pub async fn body(world: &World, job: &JobModel, row: &Task) -> Check {
    let Some((result, object)) =
        row.result.as_ref().and_then(|result| Some((result, result.object.as_ref()?)))
    else {
        return Ok(());
    };
    let key: Option<BlobKey> = object.parse().ok();
    let found = match &key {
        Some(key) => world.truth.blobs.get(key, result.offset, result.length).await.ok(),
        None => None,
    };
    require(found.as_deref() == Some(expected_body(row.id).as_bytes()), Rule::Durable, || {
        format!("{job}: task {} is successful, and its body is not at {object}", row.id.index())
    })
}
