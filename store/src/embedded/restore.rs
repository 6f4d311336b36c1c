//! Ends of tasks that are known from elsewhere (SPEC 6.18): given to rows that have none, and counted with them.

use super::codec::{task_key, task_status_code};
use super::runs;
use super::tasks::{End, count_end};
use crate::port::{Result, RunKey};
use conveyor_domain::{Counts, Outcome, Spend, TaskId, Timestamp, WorkerId};
use rusqlite::{Connection, params};

/// Whatever state the run is in. Of one whose rows are gone, nothing is restored.
pub fn restore(
    connection: &Connection,
    key: RunKey,
    worker: WorkerId,
    ends: &[(TaskId, Outcome)],
    now: Timestamp,
) -> Result<Vec<bool>> {
    let Some(stored) = runs::find(connection, key)? else { return Ok(vec![false; ends.len()]) };
    let mut delta = Counts::default();
    let mut given = Vec::with_capacity(ends.len());
    for (task, outcome) in ends {
        let is_end = outcome.status().is_terminal() && task.belongs_to(stored.run.id_seed);
        let applied = is_end && end(connection, task_key(stored.key, task.index()), outcome, now)?;
        if applied {
            count_end(&mut delta, outcome);
        }
        given.push(applied);
    }
    runs::count(connection, stored.key, worker, delta, Spend::default())?;
    Ok(given)
}

/// Without a token: whoever had claimed the task finds out that it lost.
fn end(connection: &Connection, task_key: i64, outcome: &Outcome, now: Timestamp) -> Result<bool> {
    let End { result, error, class } = End::of(outcome)?;
    let changed = connection
        .prepare_cached(
            "UPDATE tasks SET status = ?2, attempts = attempts + 1, claims = 0, claim_token = NULL, not_before_ms = 0,
                result = ?3, error = ?4, class = ?5, updated_ms = ?6
             WHERE task_key = ?1 AND status IN (0, 1)",
        )?
        .execute(params![task_key, task_status_code(outcome.status()), result, error, class, now.0])?;
    Ok(changed == 1)
}
