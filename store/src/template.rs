//! What runs of a scheduled job are made of (SPEC 6.20), for every role that begins one.

use crate::port::{Reader, Result, RunKey, StatusFilter, Store, TasksQuery};
use conveyor_domain::job::run::Expected;
use conveyor_domain::schedule::TaskSource;
use conveyor_domain::{Job, limits};

/// How many tasks the next run of a scheduled job will have; `None` if nobody has counted its list.
pub async fn expected_tasks(store: &dyn Store, job: &Job) -> Result<Option<Expected>> {
    let Some(schedule) = &job.spec.schedule else { return Ok(None) };
    match (schedule.task_source(), schedule.rows) {
        (TaskSource::List(source), _) => Ok(source.expected(&job.spec.params)),
        (TaskSource::Rows(_), Some(tasks)) => Ok(Some(Expected { tasks, exact: true })),
        (TaskSource::Rows(run), None) => count(store, RunKey { job: job.id, run }).await.map(Some),
    }
}

/// Of a job that an earlier version stored. No submit wrote more rows than can be written on a request.
async fn count(store: &dyn Store, key: RunKey) -> Result<Expected> {
    let (filter, limit, max_bytes) = (StatusFilter::All, limits::RESULTS_PAGE_MAX, limits::CHUNK_MAX_BYTES);
    let mut query = TasksQuery { key, filter, after: None, limit, max_bytes };
    let mut tasks = 0;
    loop {
        let page = store.scan_tasks(query, limits::LOOK_ROWS_MAX, Reader::Caller).await?;
        tasks += page.rows.len();
        if page.next.is_none() || tasks > limits::INLINE_TASKS_MAX {
            return Ok(Expected { tasks: tasks as u32, exact: page.next.is_none() });
        }
        query.after = page.next;
    }
}
