use super::{job_of, send};
use crate::auth::Caller;
use crate::body::{self, JsonBody};
use crate::cursor::Cursors;
use crate::path::{Id, Path};
use crate::problem::{ApiError, Result};
use crate::query::Query;
use crate::state::Shared;
use crate::wire::job::{JobJson, JobsJson, SubmittedJson};
use crate::wire::run::RunJson;
use crate::wire::submit::SubmitRequest;
use axum::Json;
use axum::extract::{Request, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use conveyor_domain::lifecycle::{self, Command, Decision};
use conveyor_domain::run::Counts;
use conveyor_domain::seal::Purpose;
use conveyor_domain::{JobId, JobStatus, RunId, RunStats, limits};
use conveyor_store::port::{JobView, JobsQuery, RunView, Submission};

pub(super) async fn submit(
    caller: Caller,
    State(state): State<Shared>,
    query: Query,
    request: Request,
) -> Result<Response> {
    query.none()?;
    refuse_idempotency_key(request.headers())?;
    let config = &state.config;
    // The room is kept until the rows are written: they take as much again.
    let JsonBody { bytes, room: _room } =
        body::read_json(request, config.max_body_bytes, &state.bodies).await?;
    let SubmitRequest { open, mut spec, tasks } =
        SubmitRequest::parse(&bytes, config.param_policy, config.run_tasks_max).await?;
    drop(bytes);

    let now = state.now();
    let (id, run) = (JobId::new(now, &state.entropy), RunId::new(now, &state.entropy));
    if config.forward_keys {
        let key = caller.key.as_bytes();
        spec.credential = Some(state.secret.seal(Purpose::Credential, &id.to_string(), key, &state.entropy));
    }
    let accepted = tasks.len();
    let count = u32::try_from(accepted).map_err(|e| ApiError::internal(e.to_string()))?;
    let Decision { job, run } = lifecycle::submit(id, run, caller.id, spec, open, count, now);
    let answer = RunView { run: run.clone(), stats: RunStats { total: count, counts: Counts::default() } };
    let status = job.status;
    let unsent =
        state.store().submit(Submission { job, run, tasks: (0..).zip(tasks).collect(), list: None }).await?;
    send(&state, answer.run.id, &unsent).await;

    let body =
        SubmittedJson { job_id: id, status, latest_run: RunJson::from(&answer), accepted_tasks: accepted };
    Ok((StatusCode::CREATED, [(LOCATION, format!("/v1/jobs/{id}"))], Json(body)).into_response())
}

/// Accepting the header without honouring it would be a lie: the caller relies on it when it repeats a request.
pub(super) fn refuse_idempotency_key(headers: &HeaderMap) -> Result<()> {
    match headers.contains_key("idempotency-key") {
        true => Err(ApiError::not_implemented("`Idempotency-Key`")),
        false => Ok(()),
    }
}

pub(super) async fn list(caller: Caller, State(state): State<Shared>, query: Query) -> Result<Response> {
    let query = query.only(&["status", "type", "limit", "cursor"])?;
    let status = query.choice("status", &JobStatus::ALL.map(|status| (status.as_str(), status)))?;
    let scheduled = query.choice("type", &[("regular", false), ("scheduled", true)])?;
    let limit = query.limit(limits::PAGE_DEFAULT, limits::PAGE_MAX)?;
    let (status_text, type_text) = (query.get("status").unwrap_or(""), query.get("type").unwrap_or(""));
    let cursors = Cursors::new(&state, caller.id, &format!("jobs|status={status_text}|type={type_text}"));
    let before = cursors.open(query.get("cursor"))?;
    // There are no scheduled jobs yet: the list of them is empty, not an error.
    let mut views = match scheduled {
        Some(true) => Vec::new(),
        Some(false) | None => {
            state.store().jobs(JobsQuery { caller: caller.id, status, before, limit: limit + 1 }).await?
        }
    };
    let next_cursor = cursors.page(&mut views, limit, |view| view.job.id);
    Ok(Json(JobsJson { jobs: views.iter().map(JobJson::from).collect(), next_cursor }).into_response())
}

pub(super) async fn show(
    caller: Caller,
    State(state): State<Shared>,
    Path(Id(job)): Path<Id<JobId>>,
    query: Query,
) -> Result<Response> {
    query.none()?;
    let view = job_of(&state, &caller, job).await?;
    Ok(Json(JobJson::from(&view)).into_response())
}

pub(super) async fn delete(
    caller: Caller,
    State(state): State<Shared>,
    Path(Id(job)): Path<Id<JobId>>,
    query: Query,
) -> Result<Response> {
    query.none()?;
    let view = apply(&state, &caller, job, Command::Delete).await?;
    Ok((StatusCode::ACCEPTED, Json(JobJson::from(&view))).into_response())
}

pub(super) async fn close(
    caller: Caller,
    State(state): State<Shared>,
    Path(Id(job)): Path<Id<JobId>>,
    query: Query,
) -> Result<Response> {
    query.none()?;
    let view = apply(&state, &caller, job, Command::Close).await?;
    Ok(Json(JobJson::from(&view)).into_response())
}

pub(super) async fn stop(
    caller: Caller,
    State(state): State<Shared>,
    Path(Id(job)): Path<Id<JobId>>,
    query: Query,
) -> Result<Response> {
    query.none()?;
    let view = apply(&state, &caller, job, Command::Stop).await?;
    Ok(Json(RunJson::from(&view.latest)).into_response())
}

/// Applies a command to a job of this caller. `apply` itself does not ask whose it is; a job never changes hands, so
/// looking first is enough.
async fn apply(state: &Shared, caller: &Caller, job: JobId, command: Command) -> Result<JobView> {
    job_of(state, caller, job).await?;
    Ok(state.store().apply(job, command, state.now()).await?)
}
