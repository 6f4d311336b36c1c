use super::jobs::refuse_idempotency_key;
use super::{FoundRun, job_of, run_of, send};
use crate::auth::Caller;
use crate::body::{self, JsonBody};
use crate::path::{Id, Path};
use crate::problem::{ApiError, Result};
use crate::query::Query;
use crate::state::{ApiState, Shared};
use crate::wire::job::AddedJson;
use crate::wire::task::HistoryJson;
use crate::wire::tasks::AddRequest;
use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use conveyor_domain::retention::is_over;
use conveyor_domain::{JobId, Run, RunId, Task, TaskId, limits};
use conveyor_store::port::RunKey;

pub(super) async fn add(
    caller: Caller,
    State(state): State<Shared>,
    Path(Id(job)): Path<Id<JobId>>,
    query: Query,
    request: Request,
) -> Result<Response> {
    // Before anything about the body: another caller's job must not show by how far the check of a body gets.
    let found = job_of(&state, &caller, job).await?.job;
    query.none()?;
    refuse_idempotency_key(request.headers())?;
    let config = &state.config;
    let JsonBody { bytes, room: _room } =
        body::read_json(request, config.max_body_bytes, &state.bodies).await?;
    let AddRequest { tasks, last_batch } =
        AddRequest::parse(&bytes, &found.spec.params, config.param_policy).await?;
    drop(bytes);

    let accepted_tasks = tasks.len();
    // In a task of its own: a caller that hangs up half way must not leave indexes behind that nobody counts.
    let (run_tasks_max, adding) = (config.run_tasks_max, state.clone());
    let adding = tokio::spawn(async move {
        adding.store().add_tasks(job, tasks, last_batch, run_tasks_max, adding.now()).await
    });
    let added = adding.await.map_err(|e| ApiError::internal(e.to_string()))??;
    let view = added.view;
    send(&state, view.latest.run.id, &added.unsent).await;
    let job_status = view.job.status;
    Ok(Json(AddedJson { accepted_tasks, job_status, latest_run: (&view.latest).into() }).into_response())
}

pub(super) async fn history_of_latest(
    caller: Caller,
    State(state): State<Shared>,
    Path((Id(job), Id(task))): Path<(Id<JobId>, Id<TaskId>)>,
    query: Query,
) -> Result<Response> {
    query.none()?;
    let run = run_of(&state, &caller, job, None).await?;
    history(&state, &run, task).await
}

pub(super) async fn history_of_run(
    caller: Caller,
    State(state): State<Shared>,
    Path((Id(job), Id(run), Id(task))): Path<(Id<JobId>, Id<RunId>, Id<TaskId>)>,
    query: Query,
) -> Result<Response> {
    query.none()?;
    let run = run_of(&state, &caller, job, Some(run)).await?;
    history(&state, &run, task).await
}

async fn history(state: &ApiState, found: &FoundRun, task: TaskId) -> Result<Response> {
    found.rows(state)?;
    let row = task_of(state, &found.view.run, task).await?;
    let mut key = key_of(&found.view.run, task)?;
    if let Some(from) = row.inherited {
        // Whoever did it has the attempts.
        key.run = from.run;
    }
    let attempts = state.store().attempts(key, task).await?.ok_or_else(ApiError::not_found)?;
    Ok(Json(HistoryJson::from(&attempts[..])).into_response())
}

/// A task of a run, unless it is past its time: then it makes no difference whether its row is still there.
pub(super) async fn task_of(state: &ApiState, run: &Run, id: TaskId) -> Result<Task> {
    let (found, now) = (state.store().task(key_of(run, id)?, id).await?, state.now());
    let may_be_gone = id.index() < run.next_index && run.created.after(limits::ROWS_KEPT) <= now;
    match found {
        Some(task) if !is_over(&task, now) => Ok(task),
        None if !may_be_gone => Err(ApiError::not_found()),
        Some(_) | None => Err(ApiError::expired("The task ended so long ago that it is no longer kept.")),
    }
}

/// Where the rows of a run are, provided that the task is one of its own. A store finds a task by its index alone, so
/// without this check any digest would do (SPEC 4).
pub(super) fn key_of(run: &Run, task: TaskId) -> Result<RunKey> {
    match task.belongs_to(run.id_seed) {
        true => Ok(RunKey { job: run.job, run: run.id }),
        false => Err(ApiError::not_found()),
    }
}
