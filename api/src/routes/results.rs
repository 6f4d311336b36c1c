use super::{FoundRun, run_of};
use crate::auth::Caller;
use crate::cursor::Cursors;
use crate::path::{Id, Path};
use crate::problem::Result;
use crate::query::Query;
use crate::result_url;
use crate::signed_url::BaseUrl;
use crate::state::{ApiState, Shared};
use crate::wire::task::{ResultsJson, TaskJson};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use conveyor_domain::retention::{is_expired, is_over};
use conveyor_domain::{JobId, RunId, Task, limits};
use conveyor_store::port::{RunKey, StatusFilter, TasksQuery};

/// `processing` is what the batch client calls everything that has not ended.
const FILTERS: [(&str, StatusFilter); 4] = [
    ("all", StatusFilter::All),
    ("successful", StatusFilter::Successful),
    ("failed", StatusFilter::Failed),
    ("processing", StatusFilter::Unfinished),
];

pub(super) async fn of_latest(
    caller: Caller,
    State(state): State<Shared>,
    Path(Id(job)): Path<Id<JobId>>,
    base: BaseUrl,
    query: Query,
) -> Result<Response> {
    let run = run_of(&state, &caller, job, None).await?;
    page(&state, &caller, &run, &base, query).await
}

pub(super) async fn of_run(
    caller: Caller,
    State(state): State<Shared>,
    Path((Id(job), Id(run))): Path<(Id<JobId>, Id<RunId>)>,
    base: BaseUrl,
    query: Query,
) -> Result<Response> {
    let run = run_of(&state, &caller, job, Some(run)).await?;
    page(&state, &caller, &run, &base, query).await
}

async fn page(
    state: &ApiState,
    caller: &Caller,
    found: &FoundRun,
    base: &BaseUrl,
    query: Query,
) -> Result<Response> {
    let query = query.only(&["status", "limit", "cursor"])?;
    let filter = query.choice("status", &FILTERS)?.unwrap_or_default();
    let limit = query.limit(limits::RESULTS_PAGE_DEFAULT, limits::RESULTS_PAGE_MAX)?;
    let key = found.rows(state)?;
    let RunKey { job, run } = key;
    // The run, not "the latest": pages of one list must not come from two runs.
    let cursors = Cursors::new(state, caller.id, &format!("results|{job}|{run}|{filter:?}"));
    let after = cursors.open(query.get("cursor"))?;
    let (mut tasks, limit) =
        read(state, TasksQuery { key, filter, after, limit, max_bytes: limits::RESULTS_PAGE_BYTES }).await?;
    let next_cursor = cursors.page(&mut tasks, limit, |task| task.id);
    let mut results = Vec::with_capacity(tasks.len());
    let spec = &found.job.spec;
    // One that is over is not there, whether or not it was removed yet.
    for task in tasks.iter().filter(|task| !is_over(task, state.now())) {
        let result_url = result_url::of(state, base, spec, &found.view.run, task).await?;
        results.push(TaskJson::new(run, task, is_expired(task, spec, state.now()), result_url));
    }
    Ok(Json(ResultsJson { results, next_cursor }).into_response())
}

/// Rows for a page, one past its limit if there are more. Rows differ in size a thousandfold, so the page ends early, with a
/// smaller limit, when they become too much.
async fn read(state: &ApiState, query: TasksQuery) -> Result<(Vec<Task>, u32)> {
    let wanted = query.limit + 1;
    let tasks = state.store().tasks(TasksQuery { limit: wanted, ..query }).await?;
    let have = u32::try_from(tasks.len()).unwrap_or(wanted);
    let cut = have < wanted && tasks.iter().map(Task::weight).sum::<usize>() >= query.max_bytes;
    Ok((tasks, if cut { (have - 1).max(1) } else { query.limit }))
}
