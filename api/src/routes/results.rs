use super::{FoundRun, run_of};
use crate::auth::Caller;
use crate::cursor::Cursors;
use crate::path::{Id, Path};
use crate::problem::Result;
use crate::query::Query;
use crate::result_url;
use crate::show;
use crate::signed_url::BaseUrl;
use crate::state::{ApiState, Shared};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use conveyor_domain::job::retention::{is_expired, is_over};
use conveyor_domain::{JobId, RunId, limits};
use conveyor_store::port::{Reader, RunKey, StatusFilter, TasksQuery};
use conveyor_wire::Results;

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
    let key = found.rows(state).await?;
    let RunKey { job, run } = key;
    // The run, not "the latest": pages of one list must not come from two runs.
    let cursors = Cursors::new(state, caller.id, &format!("results|{job}|{run}|{filter:?}"));
    let after = cursors.open(query.get("cursor"))?;
    // One past the limit: whether there is another page. Rows differ in size a thousandfold, so it may end early.
    let rows = TasksQuery { key, filter, after, limit: limit + 1, max_bytes: limits::RESULTS_PAGE_BYTES };
    let read = state.store().scan_tasks(rows, limits::LOOK_ROWS_MAX, Reader::Caller);
    let mut page = state.list(caller.id, read).await?;
    let next_cursor = cursors.scanned(&mut page, limit, |task| task.id);
    let tasks = page.rows;
    let mut results = Vec::with_capacity(tasks.len());
    let spec = &found.job.spec;
    let is_past = |task, now| is_over(task, now) || is_expired(task, spec, now);
    let now = state.judged_at(|now| tasks.iter().any(|task| is_past(task, now))).await?;
    // One that is over is not there, whether or not it was removed yet.
    for task in tasks.into_iter().filter(|task| !is_over(task, now)) {
        let result_url = result_url::of(state, base, &found.job, &found.view.run, &task).await?;
        let expired = is_expired(&task, spec, now);
        results.push(show::task(run, task, expired, result_url));
    }
    Ok(Json(Results { results, next_cursor }).into_response())
}
