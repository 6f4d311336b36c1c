use super::{FoundRun, job_of, run_of, send};
use crate::admission;
use crate::auth::Caller;
use crate::body::{self, JsonBody};
use crate::idempotency::{self, Begun, Intent, Snapshot, Turn};
use crate::path::{Id, Path};
use crate::problem::{ApiError, Result};
use crate::query::Query;
use crate::shares::in_flight;
use crate::show;
use crate::state::{ApiState, Shared};
use crate::warnings::{STRICT, Warnings};
use crate::wire::tasks::AddRequest;
use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use conveyor_domain::access::quota::Wanted;
use conveyor_domain::job::retention::is_over;
use conveyor_domain::{Job, JobId, Run, RunId, Task, TaskId, limits};
use conveyor_store::port::{JobView, RunKey};
use conveyor_wire::Added;

pub(super) async fn add(
    caller: Caller,
    State(state): State<Shared>,
    Path(Id(job)): Path<Id<JobId>>,
    query: Query,
    request: Request,
) -> Result<Response> {
    // Before anything about the body: another caller's job must not show by how far the check of a body gets.
    let found = job_of(&state, &caller, job).await?.job;
    let warnings = Warnings::of(&request, &query.only(&[STRICT])?)?;
    let mut intent = Intent::of(&request, caller.id)?;
    let config = &state.config;
    let in_flight = in_flight::of(request.extensions());
    let JsonBody { bytes, room } = body::read_json(request, config.max_body_bytes, &state.bodies).await?;
    if let Some(intent) = &mut intent {
        intent.pass(&bytes);
    }
    let mut turn = match idempotency::begin(&state, intent, warnings).await? {
        Begun::Replay(answer) => return Ok(answer),
        Begun::Fresh(turn) => turn,
    };
    // A caller that hangs up half way must not leave indexes behind that nobody counts.
    let adding = async move {
        let added = add_to(&state, &found, bytes, &mut turn).await;
        turn.end(&state, added).await
    };
    in_flight::to_the_end(in_flight, room, adding).await
}

async fn add_to(state: &ApiState, job: &Job, bytes: Bytes, turn: &mut Turn) -> Result<Response> {
    let config = &state.config;
    let AddRequest { mut tasks, last_batch } =
        AddRequest::parse(&bytes, &job.spec.params, config.param_policy, turn.warnings()).await?;
    drop(bytes);
    let headers = state.headers();
    tasks.iter_mut().for_each(|task| headers.seal(&job.id, &mut task.params));
    let accepted_tasks = tasks.len();
    let once = turn.claim(state, move |view| added_answer(view, accepted_tasks)).await?;
    let (caller, job) = (job.caller, job.id);
    let run_tasks_max = config.run_tasks_max;
    let count = u32::try_from(accepted_tasks).unwrap_or(u32::MAX);
    let wanted = Wanted { job, active: false, scheduled: false, tasks: count };
    let add = async {
        Ok(state.store().add_tasks(job, tasks, last_batch, run_tasks_max, once, state.now()).await?)
    };
    let added = admission::within(state, caller, wanted, add).await?;
    let view = added.view;
    send(state, view.job.latest_run, &added.unsent).await;
    Ok(added_answer(&view, accepted_tasks).into_response())
}

fn added_answer(view: &JobView, accepted_tasks: usize) -> Snapshot {
    let job_status = view.job.status.into();
    let added = |latest| Added { accepted_tasks, job_status, latest_run: show::run(latest) };
    // A job that takes tasks has a run.
    Snapshot::new(StatusCode::OK, &view.latest.as_ref().map(added))
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
    found.rows(state).await?;
    let row = task_of(state, &found.view.run, task).await?;
    let mut key = key_of(&found.view.run, task)?;
    if let Some(from) = row.inherited {
        // Whoever did it has the attempts.
        key.run = from.run;
    }
    let attempts = state.store().attempts(key, task).await?.ok_or_else(ApiError::not_found)?;
    Ok(Json(show::history(attempts)).into_response())
}

/// A task of a run, unless it is past its time: then it makes no difference whether its row is still there.
pub(super) async fn task_of(state: &ApiState, run: &Run, id: TaskId) -> Result<Task> {
    let found = state.store().task(key_of(run, id)?, id).await?;
    let is_past = |now| match &found {
        Some(task) => is_over(task, now),
        None => id.index() < run.next_index && run.created.after(limits::ROWS_KEPT) <= now,
    };
    let is_past = is_past(state.judged_at(is_past).await?);
    match found {
        Some(task) if !is_past => Ok(task),
        None if !is_past => Err(ApiError::not_found()),
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
