//! The tasks of a run, page by page.

use super::failure::{Failure, patiently};
use conveyor_domain::limits::MIB;
use conveyor_domain::{Task, TaskId};
use conveyor_store::Backend;
use conveyor_store::port::{RunKey, StatusFilter, TasksQuery};

const PAGE_ROWS: u32 = 1_000;

pub struct Pages<'a> {
    backend: &'a Backend,
    key: RunKey,
    filter: StatusFilter,
    after: Option<TaskId>,
}

impl<'a> Pages<'a> {
    pub fn new(backend: &'a Backend, key: RunKey, filter: StatusFilter) -> Pages<'a> {
        Pages { backend, key, filter, after: None }
    }

    /// The next tasks; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Vec<Task>>, Failure> {
        let query = TasksQuery {
            key: self.key,
            filter: self.filter,
            after: self.after,
            limit: PAGE_ROWS,
            max_bytes: 4 * MIB,
        };
        let page = patiently(|| self.backend.store.tasks(query)).await?;
        let Some(last) = page.last() else { return Ok(None) };
        self.after = Some(last.id);
        Ok(Some(page))
    }
}
