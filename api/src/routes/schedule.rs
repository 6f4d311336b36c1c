//! The schedule of a job (SPEC 6.20): another rule, paused, going on. What runs already goes on.

use crate::body;
use crate::fields::Fields;
use crate::path::OwnedJob;
use crate::problem::Result;
use crate::show;
use crate::submit::check_fires;
use crate::warnings::Warnings;
use crate::wire::schedule;
use axum::Json;
use axum::extract::{FromRequest, Request};
use conveyor_domain::{Command, Refusal, ScheduleChange};
use conveyor_wire as wire;

pub(super) async fn replace(owned: OwnedJob, request: Request) -> Result<Json<wire::Job>> {
    let body = body_of(&owned, request).await?;
    let parsed = |bytes: &[u8], warnings: &Warnings| {
        schedule::parse(&Fields::parse(bytes, schedule::FIELDS, warnings)?)
    };
    let schedule = body.parse(parsed)?;
    check_fires(&schedule, owned.state.now())?;
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
