use crate::auth::Caller;
use crate::dry_run::dry_run;
use crate::idempotency::Intent;
use crate::problem::Result;
use crate::query::Query;
use crate::shares::in_flight;
use crate::state::Shared;
use crate::submit::{self, Received};
use crate::warnings::{STRICT, Warnings};
use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};

pub(super) async fn submit(
    caller: Caller,
    State(state): State<Shared>,
    query: Query,
    request: Request,
) -> Result<Response> {
    let query = query.only(&["dry_run", STRICT])?;
    let warnings = Warnings::of(&request, &query)?;
    let dry = query.choice("dry_run", &[("true", true), ("false", false)])?.unwrap_or(false);
    // A dry run ignores the idempotency key, but a malformed key is still rejected.
    let intent = Intent::of(&request, caller.id)?.filter(|_| !dry);
    let in_flight = in_flight::of(request.extensions());
    let Received { rest, tasks, room, intent } = submit::receive(&state, caller.id, request, intent).await?;
    if dry {
        let report = dry_run(&state, &caller, &rest, &tasks, &warnings).await;
        tasks.abandon().await;
        return Ok(Json(report?).into_response());
    }
    // The room is kept until the rows are written: they take as much again.
    let making = submit::make(state, caller, rest, tasks, intent, warnings);
    in_flight::to_the_end(in_flight, room, making).await
}
