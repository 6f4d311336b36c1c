//! The schedule of a job (SPEC 6.20): another rule, paused, going on. What runs already goes on.

use crate::body;
use crate::fields::Fields;
use crate::owned::OwnedJob;
use crate::problem::{ApiError, Result};
use crate::show;
use crate::warnings::Warnings;
use crate::wire::schedule;
use axum::Json;
use axum::extract::{FromRequest, Request};
use conveyor_domain::{
    Command, JobSchedule, JobSpec, Refusal, RunId, Schedule, ScheduleChange, Timestamp, limits,
};
use conveyor_wire as wire;

pub(super) async fn replace(owned: OwnedJob, request: Request) -> Result<Json<wire::Job>> {
    let body = body_of(&owned, request).await?;
    let parsed = |bytes: &[u8], warnings: &Warnings| {
        schedule::parse(&Fields::parse(bytes, schedule::FIELDS, warnings)?)
    };
    let schedule = body.parse(parsed)?;
    check(&schedule, owned.state.now())?;
    apply(&owned, ScheduleChange::Rule(schedule)).await
}

pub(super) async fn turn(owned: OwnedJob, request: Request) -> Result<Json<wire::Job>> {
    let change = body_of(&owned, request).await?.parse(schedule::parse_state)?;
    apply(&owned, ScheduleChange::State(change)).await
}

/// That a job has no schedule is said before anything about the body.
async fn body_of(owned: &OwnedJob, request: Request) -> Result<body::Json> {
    match owned.view.job.spec.schedule {
        Some(_) => <body::Json as FromRequest<_>>::from_request(request, &owned.state).await,
        None => Err(Refusal::JobNotScheduled.into()),
    }
}

async fn apply(owned: &OwnedJob, change: ScheduleChange) -> Result<Json<wire::Job>> {
    let view = owned.apply(Command::Schedule(change)).await?;
    Ok(Json(show::job(&view, owned.state.now())))
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
