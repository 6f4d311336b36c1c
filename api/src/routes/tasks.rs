use crate::body::{self, JsonBody};
use crate::idempotency::{self, Intent, Snapshot, Turn};
use crate::path::{Id, OwnedJob, OwnedRun};
use crate::problem::{ApiError, Result};
use crate::query::NoQuery;
use crate::shares::in_flight;
use crate::show;
use crate::state::ApiState;
use crate::warnings::Warnings;
use crate::wire::tasks::AddRequest;
use axum::Json;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use conveyor_domain::access::quota::Wanted;
use conveyor_domain::{Attempt, Job, TaskId};
use conveyor_store::admission::Became;
use conveyor_store::port::{JobView, Once};
use conveyor_wire::{self as wire, Added, Time};
use std::ops::ControlFlow;

pub(super) async fn add(
    OwnedJob { state, caller, view: JobView { job, .. } }: OwnedJob,
    mut request: Request,
) -> Result<Response> {
    let warnings = Warnings::alone(&mut request).await?;
    let mut intent = Intent::of(&request, caller.id)?;
    let config = &state.config;
    let in_flight = in_flight::of(request.extensions());
    let JsonBody { bytes, room } = body::read_json(request, config.max_body_bytes, &state.bodies).await?;
    if let Some(intent) = &mut intent {
        intent.pass(&bytes);
    }
    let mut turn = match idempotency::begin(&state, intent, warnings).await {
        ControlFlow::Continue(turn) => turn,
        ControlFlow::Break(answer) => return answer,
    };
    // A caller that hangs up half way must not leave indexes behind that nobody counts.
    let adding = async move {
        let added = add_to(&state, &job, bytes, &mut turn).await;
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
    let answer = move |view: &JobView| {
        let job_status = view.job.status.into();
        let added = |latest| Added { accepted_tasks, job_status, latest_run: show::run(latest) };
        // A job that takes tasks has a run.
        Snapshot::new(StatusCode::OK, &view.latest.as_ref().map(added))
    };
    let count = u32::try_from(accepted_tasks).unwrap_or(u32::MAX);
    let wanted = Wanted { job: job.id, active: false, scheduled: false, tasks: count };
    let add = move |once: Option<Once>| async move {
        let (max, now) = (config.run_tasks_max, state.now());
        Ok(state.store().add_tasks(job.id, tasks, last_batch, max, once, now).await?)
    };
    turn.carry_out(state, job.caller, (wanted, Became::Known), answer, add).await
}

pub(super) async fn history(
    found: OwnedRun,
    Id(task): Id<TaskId>,
    _: NoQuery,
) -> Result<Json<wire::History>> {
    let (row, mut key) = (found.task(task).await?, found.key());
    if let Some(from) = row.inherited {
        // Whoever did it has the attempts.
        key.run = from.run;
    }
    let attempts = found.state.store().attempts(key, task).await?.ok_or_else(ApiError::not_found)?;
    let attempt = |attempt: Attempt| wire::Attempt {
        started_at: Time(attempt.started),
        ended_at: Time(attempt.ended),
        attempt: attempt.number,
        error: attempt.error,
        spend: wire::Spend::of(attempt.spend),
    };
    Ok(Json(wire::History { events: attempts.into_iter().map(attempt).collect() }))
}
