//! The schedule of a job (SPEC 6.20): another rule, paused, going on. What runs already goes on.

use super::{applied, job_of};
use crate::auth::Caller;
use crate::body::{self, JsonBody};
use crate::path::{Id, Path};
use crate::problem::{ApiError, Result};
use crate::query::Query;
use crate::show;
use crate::state::{ApiState, Shared};
use crate::warnings::{STRICT, Warnings};
use crate::wire::{read as read_body, schedule};
use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use conveyor_domain::{
    Command, JobId, JobSchedule, JobSpec, Refusal, RunId, Schedule, ScheduleChange, Timestamp, limits,
};
use conveyor_wire::ScheduleTurn;

pub(super) async fn replace(
    caller: Caller,
    State(state): State<Shared>,
    Path(Id(job)): Path<Id<JobId>>,
    query: Query,
    request: Request,
) -> Result<Response> {
    of_scheduled(&state, &caller, job).await?;
    let warnings = Warnings::of(&request, &query.only(&[STRICT])?)?;
    let JsonBody { bytes, room: _room } = read(&state, request).await?;
    let schedule = schedule::parse(&bytes, &warnings)?;
    check(&schedule, state.now())?;
    apply(&state, &caller, job, ScheduleChange::Rule(schedule)).await
}

pub(super) async fn turn(
    caller: Caller,
    State(state): State<Shared>,
    Path(Id(job)): Path<Id<JobId>>,
    query: Query,
    request: Request,
) -> Result<Response> {
    of_scheduled(&state, &caller, job).await?;
    let warnings = Warnings::of(&request, &query.only(&[STRICT])?)?;
    let JsonBody { bytes, room: _room } = read(&state, request).await?;
    let change = ScheduleChange::State(read_body::<ScheduleTurn>(&bytes, &warnings)?.schedule_state);
    apply(&state, &caller, job, change).await
}

/// Before anything about the body: another caller's job must not show by how far the check of a body gets.
async fn of_scheduled(state: &ApiState, caller: &Caller, job: JobId) -> Result<()> {
    let view = job_of(state, caller, job).await?;
    match view.job.spec.schedule {
        Some(_) => Ok(()),
        None => Err(Refusal::JobNotScheduled.into()),
    }
}

async fn read(state: &ApiState, request: Request) -> Result<JsonBody> {
    let max = limits::SUBMIT_REST_MAX_BYTES.min(state.config.max_body_bytes);
    body::read_json(request, max, &state.bodies).await
}

async fn apply(state: &ApiState, caller: &Caller, job: JobId, change: ScheduleChange) -> Result<Response> {
    let view = applied(state, caller.id, job, Command::Schedule(change)).await?;
    Ok(Json(show::job(&view, state.now())).into_response())
}

/// Only a time that has passed has nothing to come.
fn check(schedule: &Schedule, now: Timestamp) -> Result<Timestamp> {
    let passed = || ApiError::invalid("The schedule never fires: its time has passed.");
    schedule.next_after(now, now).ok_or_else(passed)
}

/// What is submitted, with its schedule, if it can be stored. The run that keeps its tasks is named once there is one.
pub(super) fn scheduled(mut spec: JobSpec, schedule: Option<Schedule>, now: Timestamp) -> Result<JobSpec> {
    if let Some(schedule) = schedule {
        check(&schedule, now)?;
        spec.schedule = Some(JobSchedule::new(schedule, RunId::from_bytes([0; 16]), None, now));
    }
    match spec.stored_bytes() > limits::JOB_DOCUMENT_MAX_BYTES {
        true => Err(Refusal::JobTooLarge.into()),
        false => Ok(spec),
    }
}
