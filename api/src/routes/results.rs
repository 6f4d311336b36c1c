use super::run_of;
use crate::auth::Caller;
use crate::cursor::Cursors;
use crate::path::{Id, Path};
use crate::problem::Result;
use crate::query::Query;
use crate::signed_url::{BaseUrl, ContentPath};
use crate::state::{ApiState, Shared};
use crate::wire::task::{ResultsJson, TaskJson};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
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
    let run = run_of(&state, &caller, job, None).await?.run.id;
    page(&state, &caller, RunKey { job, run }, &base, query).await
}

pub(super) async fn of_run(
    caller: Caller,
    State(state): State<Shared>,
    Path((Id(job), Id(run))): Path<(Id<JobId>, Id<RunId>)>,
    base: BaseUrl,
    query: Query,
) -> Result<Response> {
    let run = run_of(&state, &caller, job, Some(run)).await?.run.id;
    page(&state, &caller, RunKey { job, run }, &base, query).await
}

async fn page(
    state: &ApiState,
    caller: &Caller,
    key: RunKey,
    base: &BaseUrl,
    query: Query,
) -> Result<Response> {
    let query = query.only(&["status", "limit", "cursor"])?;
    let filter = query.choice("status", &FILTERS)?.unwrap_or_default();
    let limit = query.limit(limits::RESULTS_PAGE_DEFAULT, limits::RESULTS_PAGE_MAX)?;
    let RunKey { job, run } = key;
    // The run, not "the latest": pages of one list must not come from two runs.
    let cursors = Cursors::new(state, caller.id, &format!("results|{job}|{run}|{filter:?}"));
    let after = cursors.open(query.get("cursor"))?;
    let (mut tasks, limit) = read(state, TasksQuery { key, filter, after, limit }).await?;
    let next_cursor = cursors.page(&mut tasks, limit, |task| task.id);
    let now = state.now();
    let signed = |task: &Task| ContentPath { job, run, task: task.id }.signed(&state.secret, base, now);
    let results = tasks.iter().map(|task| TaskJson::new(run, task, || signed(task))).collect();
    Ok(Json(ResultsJson { results, next_cursor }).into_response())
}

/// Rows for a page, one past its limit if there are more. Rows differ in size a thousandfold, so they are read in steps and
/// the page ends early, with a smaller limit, when they become too much.
async fn read(state: &ApiState, mut query: TasksQuery) -> Result<(Vec<Task>, u32)> {
    let (wanted, mut bytes) = (query.limit + 1, 0);
    let mut tasks: Vec<Task> = Vec::new();
    loop {
        let have = u32::try_from(tasks.len()).unwrap_or(wanted);
        query.limit = limits::RESULTS_STEP_ROWS.min(wanted - have);
        let step = state.store().tasks(query).await?;
        let last_step = step.len() < query.limit as usize;
        query.after = step.last().map(|task| task.id).or(query.after);
        bytes += step.iter().map(weight).sum::<usize>();
        tasks.extend(step);
        let have = u32::try_from(tasks.len()).unwrap_or(wanted);
        if last_step || have == wanted {
            return Ok((tasks, wanted - 1));
        }
        if bytes >= limits::RESULTS_PAGE_BYTES {
            return Ok((tasks, have - 1));
        }
    }
}

/// About how much a row takes in an answer.
fn weight(task: &Task) -> usize {
    let metadata: usize = task.input.metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
    let error = task.error.as_ref().and_then(|problem| problem.detail.as_ref()).map_or(0, String::len);
    task.input.url.len() + metadata + error
}
