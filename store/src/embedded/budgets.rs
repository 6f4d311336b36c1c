//! Budgets: the pure arithmetic of the domain, applied to one row in one transaction.

use super::Embedded;
use super::codec::{from_json, to_json};
use super::reader::Lane;
use crate::port::{self, Coordinator, Result};
use async_trait::async_trait;
use conveyor_domain::dispatch::grant::{Ask, Change, Scope};
use conveyor_domain::{Budget, BudgetView, CallerId, Grant, JobId, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

/// Rows that are of no use any more and go with every one that is written: more than can come.
const IDLE_REMOVED: u32 = 4;

fn load(connection: &Connection, scope: &Scope) -> Result<Option<Budget>> {
    let mut statement = connection.prepare_cached("SELECT doc FROM budgets WHERE scope = ?1")?;
    let doc: Option<String> = statement.query_row([scope.to_string()], |row| row.get(0)).optional()?;
    doc.map(|doc| from_json(&doc)).transpose()
}

/// A job whose limits were changed keeps its row as long as it is there itself: a worker that does not know of the change
/// yet would otherwise bring the old limits back.
fn idle_from(connection: &Connection, scope: &Scope, budget: &Budget) -> Result<Option<Timestamp>> {
    let kept = match scope {
        Scope::Job(job) if budget.limits().revision > 0 => {
            let mut there = connection.prepare_cached("SELECT 1 FROM jobs WHERE job_id = ?1")?;
            there.exists([job.to_bytes()])?
        }
        Scope::Job(_) | Scope::Domain(..) | Scope::Sweepers => false,
    };
    Ok((!kept).then(|| budget.idle_from()))
}

/// A row that says nothing is not kept: jobs and sites come and go.
fn save(connection: &Connection, scope: &Scope, budget: &Budget, now: Timestamp) -> Result<()> {
    let idle = idle_from(connection, scope, budget)?;
    connection
        .prepare_cached("INSERT OR REPLACE INTO budgets (scope, idle_ms, doc) VALUES (?1, ?2, ?3)")?
        .execute(params![scope.to_string(), idle.map(|at| at.0), to_json(budget)?])?;
    connection
        .prepare_cached(
            "DELETE FROM budgets WHERE scope IN (SELECT scope FROM budgets WHERE idle_ms <= ?1 LIMIT ?2)",
        )?
        .execute(params![now.0, IDLE_REMOVED])?;
    Ok(())
}

/// Reads, decides, and writes what is different. The caller is inside a transaction.
fn update<T>(
    connection: &Connection,
    scope: &Scope,
    now: Timestamp,
    decide: impl FnOnce(&mut Budget) -> T,
) -> Result<T> {
    let before = load(connection, scope)?.unwrap_or_default();
    let mut budget = before.clone();
    let answer = decide(&mut budget);
    if budget.differs(&before) {
        save(connection, scope, &budget, now)?;
    }
    Ok(answer)
}

pub fn forget(connection: &Connection, job: JobId) -> Result<()> {
    let scope = Scope::Job(job).to_string();
    connection.prepare_cached("DELETE FROM budgets WHERE scope = ?1")?.execute([scope])?;
    Ok(())
}

/// Whoever held permits is dead. What was taken of a rate was taken, and nobody may call earlier than was said.
pub fn revive(connection: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    let mut read = connection.prepare("SELECT scope, doc FROM budgets")?;
    // A document that is no text cannot be read either.
    let rows = read.query_map([], |row| Ok((row.get(0)?, row.get(1).unwrap_or_default())))?;
    for (scope, doc) in rows.collect::<rusqlite::Result<Vec<(String, String)>>>()? {
        let left = match from_json::<Budget>(&doc) {
            Ok(mut budget) => {
                budget.drop_holders();
                // Nor does a worker live that has not heard of a change: the job itself says what its limits are.
                Some(budget).filter(|budget| !budget.is_idle(now))
            }
            Err(error) => {
                // Its limits come back with whoever asks. To refuse the whole directory would be worse.
                tracing::error!(scope, %error, "a budget cannot be read and begins anew");
                None
            }
        };
        let Some(budget) = left else {
            connection.execute("DELETE FROM budgets WHERE scope = ?1", [scope])?;
            continue;
        };
        let doc = to_json(&budget).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))?;
        connection.execute(
            "UPDATE budgets SET idle_ms = iif(idle_ms IS NULL, NULL, ?2), doc = ?3 WHERE scope = ?1",
            params![scope, budget.idle_from().0, doc],
        )?;
    }
    Ok(())
}

#[async_trait]
impl Coordinator for Embedded {
    async fn ask(&self, scope: &Scope, ask: Ask, now: Timestamp) -> Result<Grant> {
        let scope = scope.clone();
        self.write(move |connection| update(connection, &scope, now, |budget| budget.ask(&ask, now))).await
    }

    async fn change(&self, scope: &Scope, change: Change, now: Timestamp) -> Result<()> {
        let scope = scope.clone();
        self.write(move |connection| update(connection, &scope, now, |budget| budget.change(change, now)))
            .await
    }

    async fn budget(&self, scope: &Scope, now: Timestamp) -> Result<BudgetView> {
        let scope = scope.clone();
        self.read(Lane::Points, move |connection| Ok(load(connection, &scope)?.unwrap_or_default().view(now)))
            .await
    }

    async fn domain_budgets(
        &self,
        caller: CallerId,
        limit: u32,
        now: Timestamp,
    ) -> Result<Vec<(String, BudgetView)>> {
        self.read(Lane::Points, move |connection| {
            let first = Scope::Domain(caller, String::new()).to_string();
            // A ';' is next to the ':' that every scope of this caller has in its place.
            let end = format!("{};", first.trim_end_matches(':'));
            let mut statement = connection.prepare_cached(
                "SELECT scope, doc FROM budgets WHERE scope >= ?1 AND scope < ?2
                    AND (idle_ms IS NULL OR idle_ms > ?3) ORDER BY scope LIMIT ?4",
            )?;
            let rows = statement.query_map(params![first, end, now.0, limit], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
            })?;
            let mut budgets = Vec::new();
            for row in rows {
                let (scope, doc) = row?;
                let name = scope.strip_prefix(&first).unwrap_or_default();
                let budget = port::readable("budget", || scope.clone(), from_json::<Budget>(&doc))?;
                budgets.extend(budget.map(|budget| (name.to_owned(), budget.view(now))));
            }
            Ok(budgets)
        })
        .await
    }
}
