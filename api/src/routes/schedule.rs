//! The schedule of a job (SPEC 6.20): another rule, paused, going on. What runs already goes on.

use crate::body;
use crate::path::OwnedJob;
use crate::problem::Result;
use crate::show;
use crate::submit::check_fires;
use crate::wire::{read, schedule};
use axum::Json;
use axum::extract::{FromRequest, Request};
use conveyor_domain::{Command, Refusal, ScheduleChange};
use conveyor_wire::{self as wire, ScheduleTurn};

pub(super) async fn replace(owned: OwnedJob, request: Request) -> Result<Json<wire::Job>> {
    let schedule = body_of(&owned, request).await?.parse(schedule::parse)?;
    check_fires(&schedule, owned.state.now())?;
    apply(&owned, ScheduleChange::Rule(schedule)).await
}

pub(super) async fn turn(owned: OwnedJob, request: Request) -> Result<Json<wire::Job>> {
    let ScheduleTurn { schedule_state } = body_of(&owned, request).await?.parse(read)?;
    apply(&owned, ScheduleChange::State(schedule_state)).await
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
