//! Result bodies, for a caller with its key and for whoever holds a result URL.

use crate::path::{Id, OwnedRun, Path, task_of};
use crate::problem::{ApiError, Code, Result};
use crate::query::{NoQuery, Query};
use crate::request_rates::Who;
use crate::shares::in_flight;
use crate::show::is_there;
use crate::signed_url::{ContentPath, READ_PARAMS, ReadPath};
use crate::state::{ApiState, Shared};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::Extensions;
use axum::http::header::{
    CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse, Response};
use conveyor_domain::job::retention::is_expired;
use conveyor_domain::{BodyFault, JobId, ResultRef, RunId, Task, TaskId, TaskStatus, damage};
use conveyor_store::{Error, read_body};

pub(super) async fn show(
    found: OwnedRun,
    Id(task): Id<TaskId>,
    _: NoQuery,
    extensions: Extensions,
) -> Result<Response> {
    let task = found.task(task).await?;
    let is_expired = |now| is_expired(&task, &found.job.spec, now);
    if is_expired(found.state.judged_at(is_expired).await?) {
        return Err(ApiError::expired("The result is past the time for which the job keeps results."));
    }
    content(&found.state, &extensions, task).await
}

pub(super) async fn by_signature(
    State(state): State<Shared>,
    Path((Id(job), Id(run), Id(task))): Path<(Id<JobId>, Id<RunId>, Id<TaskId>)>,
    query: Query,
    extensions: Extensions,
) -> Result<Response> {
    let query = query.only(READ_PARAMS)?;
    let path = ContentPath { job, run, task };
    // Before any lookup: without a signature nobody learns what exists.
    let caller = path.verify(&state.secret, &query, state.now())?;
    in_flight::admit(&state, &extensions, Who::Signed(caller)).await?;
    let view = state.store().run(job, run).await?;
    let run = view.map(|view| view.run).filter(is_there).ok_or_else(ApiError::not_found)?;
    // The signature says until when the result can be seen: no URL is signed for longer than that.
    let task = task_of(&state, &run, task).await?;
    content(&state, &extensions, task).await
}

async fn content(state: &ApiState, extensions: &Extensions, task: Task) -> Result<Response> {
    let id = task.id;
    match task.status {
        TaskStatus::Pending | TaskStatus::Processing => {
            Err(ApiError::new(Code::TaskNotReady, format!("The task is {}.", task.status.as_str())))
        }
        TaskStatus::Failed => {
            Err(ApiError::of_failed_task(task.error.unwrap_or_else(|| damage::problem("error"))))
        }
        TaskStatus::Successful if task.result.is_none() && task.error.is_some() => {
            Err(ApiError::of_failed_task(task.error.unwrap_or_else(|| damage::problem("result"))))
        }
        TaskStatus::Successful => {
            let result = task.result.ok_or_else(|| corrupt(id, "successful without a result"))?;
            in_flight::room_for(state, extensions.get(), result.length).await?;
            let body = body_of(state, id, &result).await?;
            Ok(answer(&result, body))
        }
    }
}

/// Verified before the first byte is sent: an answer that has begun cannot say that it is wrong.
async fn body_of(state: &ApiState, task: TaskId, result: &ResultRef) -> Result<Bytes> {
    match read_body(&*state.backend.blobs, task, result).await? {
        Ok(body) => Ok(body),
        Err(BodyFault::Missing) => Err(ApiError::expired("The result is no longer kept.")),
        Err(BodyFault::Truncated | BodyFault::Damaged) => {
            Err(ApiError::new(Code::ResultDamaged, damage::body_detail(task)))
        }
    }
}

/// The body is a stranger's page served from our origin: no guessing of its type, and no scripts with our cookies.
fn answer(result: &ResultRef, body: Bytes) -> Response {
    let headers = [
        (CONTENT_TYPE, result.format.content_type()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CONTENT_SECURITY_POLICY, "sandbox"),
        (CONTENT_DISPOSITION, "inline"),
    ];
    (headers, Body::from(body)).into_response()
}

fn corrupt(task: TaskId, what: &str) -> ApiError {
    Error::Corrupt(format!("task {task}: {what}")).into()
}
