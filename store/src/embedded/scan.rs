//! Pages with a budget of rows to look at (SPEC 10).

use super::codec::{index_of, task_key};
use super::runs;
use super::tasks::{self, COLUMNS as TASK_COLUMNS};
use crate::port::{Error, Page, Result, StatusFilter, TasksQuery, readable};
use conveyor_domain::{Task, TaskId};
use rusqlite::{Connection, Row, Rows, params};
use std::fmt::Display;

/// Looks at rows until the page is full or has looked at enough. `take` gives what is listed of a row. One that cannot be read
/// is left out.
pub fn page<T, Id: Copy + Display>(
    mut rows: Rows<'_>,
    what: &'static str,
    (limit, look): (u32, u32),
    id: impl Fn(&Row<'_>) -> Result<Id>,
    take: impl Fn(&Row<'_>) -> Result<Option<T>>,
) -> Result<Page<T, Id>> {
    let (mut page, mut looked, mut last) = (Page { rows: Vec::new(), next: None }, 0, None);
    while let Some(row) = rows.next()? {
        if looked == look || page.rows.len() == limit as usize {
            page.next = last;
            break;
        }
        let id = id(row)?;
        page.rows.extend(readable(what, || id.to_string(), take(row))?.flatten());
        (looked, last) = (looked + 1, Some(id));
    }
    Ok(page)
}

/// Where the rows that a filter lets through are, and how they are told. Only failed ones have an index: of the others there
/// are many, and an index would be written with every task.
fn source(filter: StatusFilter) -> (&'static str, &'static str) {
    match filter {
        StatusFilter::All => ("tasks", "true"),
        StatusFilter::Successful => ("tasks", "status = 2"),
        StatusFilter::Failed => ("tasks INDEXED BY tasks_failed", "status = 3"),
        StatusFilter::Unfinished => ("tasks", "status < 2"),
    }
}

/// Rows are clustered by index, so a budget of rows is a range of indexes. Where every row that is read is wanted, the limit
/// of the page is budget enough.
pub fn tasks(connection: &Connection, query: TasksQuery, look: u32) -> Result<Page<Task, TaskId>> {
    let stored = runs::find_listed(connection, query.key)?.ok_or(Error::NotFound)?;
    let id = |key: i64| TaskId::of(stored.run.id_seed, index_of(key));
    let first = query.after.map_or(task_key(stored.key, 0), |task| task_key(stored.key, task.index()) + 1);
    let end = task_key(stored.key + 1, 0);
    let stop = match query.filter {
        StatusFilter::All | StatusFilter::Failed => end,
        StatusFilter::Successful | StatusFilter::Unfinished => end.min(first + i64::from(look.max(1))),
    };
    let (table, condition) = source(query.filter);
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {TASK_COLUMNS} FROM {table} WHERE task_key >= ?1 AND task_key < ?2 AND {condition}
         ORDER BY task_key"
    ))?;
    let mut rows = statement.query(params![first, stop])?;
    let (mut tasks, mut bytes) = (Vec::new(), 0);
    while tasks.len() < query.limit as usize && bytes < query.max_bytes {
        let Some(row) = rows.next()? else { break };
        let name = || format!("{} of run {}", row.get(0).map_or(0, index_of), query.key.run);
        if let Some(task) = readable("task", name, tasks::decode(stored.run.id_seed, row))? {
            bytes += task.weight();
            tasks.push(task);
        }
    }
    let is_full = tasks.len() >= query.limit as usize || bytes >= query.max_bytes;
    let next = if is_full { tasks.last().map(|task| task.id) } else { None };
    if next.is_some() || stop == end {
        return Ok(Page { rows: tasks, next });
    }
    let mut behind =
        connection.prepare_cached("SELECT 1 FROM tasks WHERE task_key >= ?1 AND task_key < ?2 LIMIT 1")?;
    let next = behind.exists(params![stop, end])?.then(|| id(stop - 1));
    Ok(Page { rows: tasks, next })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::World;
    use crate::embedded::{Embedded, open};
    use conveyor_domain::Timestamp;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    const ROWS: u32 = 5_000;
    /// Instructions of SQLite's virtual machine that a row takes at least: to read a column, compare it, and step on.
    const OPS_A_ROW: u32 = 3;
    /// What a page takes beside its rows.
    const OPS_A_PAGE: u32 = 2_000;

    /// How many instructions a page takes of a run with nothing but successful tasks and one failed, the last.
    async fn ops(filter: StatusFilter, look: u32) -> (u32, Page<Task, TaskId>) {
        let dir = tempfile::TempDir::new().unwrap();
        let store = Embedded::open(dir.path(), Timestamp(1)).unwrap();
        let key = World::new(store.backend()).submit(false, ROWS).await;
        let settle = move |connection: &Connection| {
            connection.execute("UPDATE tasks SET status = 2", [])?;
            Ok(connection
                .execute("UPDATE tasks SET status = 3 WHERE task_key & 0xffffffff = ?1", [ROWS - 1])?)
        };
        assert_eq!(store.write(settle).await, Ok(1));
        let mut connection = open::connect_reader(&dir.path().join("conveyor.db")).unwrap();
        let counted = Arc::new(AtomicU32::new(0));
        let count = counted.clone();
        let step = move || count.fetch_add(1, Ordering::Relaxed) == u32::MAX;
        connection.progress_handler(1, Some(step)).unwrap();
        let query = TasksQuery { key, filter, after: None, limit: 9, max_bytes: usize::MAX };
        let page = tasks(&connection, query, look).unwrap();
        (counted.load(Ordering::Relaxed), page)
    }

    #[tokio::test]
    async fn a_failed_task_is_found_without_a_look_at_the_others() {
        let (ops, page) = ops(StatusFilter::Failed, ROWS).await;
        assert_eq!((page.rows.len(), page.next), (1, None));
        assert!(ops < OPS_A_PAGE, "{ops} instructions");
    }

    #[tokio::test]
    async fn a_filtered_page_looks_at_its_budget_and_not_at_the_run() {
        let (whole, page) = ops(StatusFilter::Unfinished, ROWS).await;
        assert_eq!((page.rows.len(), page.next), (0, None));
        assert!(
            whole > ROWS * OPS_A_ROW,
            "{whole} instructions: they do not tell how many rows were looked at"
        );
        let (ops, page) = ops(StatusFilter::Unfinished, 100).await;
        assert_eq!((page.rows.len(), page.next.map(|task| task.index())), (0, Some(99)));
        assert!(ops < OPS_A_PAGE, "{ops} instructions");
    }
}
