//! Notifications of a job, and what came of them (SPEC 6.21).

use super::job_of;
use crate::auth::Caller;
use crate::cursor::Cursors;
use crate::path::{Id, Path};
use crate::problem::{ApiError, Code, Result};
use crate::query::Query;
use crate::show;
use crate::state::{ApiState, Shared};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use conveyor_domain::delivery::delivery_key;
use conveyor_domain::delivery::webhook::Target;
use conveyor_domain::job::record::Expected;
use conveyor_domain::{
    Delivery, DeliveryState, EventId, Job, JobId, Record, RecordKind, RecordVersion, RecordWrite, limits,
};
use conveyor_store::port::{RecordsQuery, readable};
use conveyor_wire::Deliveries;

/// Looks again this often if somebody else was quicker.
const LOOKS_MAX: u32 = 5;

pub(super) async fn list(
    caller: Caller,
    State(state): State<Shared>,
    Path(Id(job)): Path<Id<JobId>>,
    query: Query,
) -> Result<Response> {
    job_of(&state, &caller, job).await?;
    let query = query.only(&["limit", "cursor"])?;
    let limit = query.limit(limits::PAGE_DEFAULT, limits::PAGE_MAX)?;
    let cursors = Cursors::new(&state, caller.id, &format!("deliveries|{job}"));
    let after: Option<EventId> = cursors.open(query.get("cursor"))?;
    let page = RecordsQuery {
        kind: RecordKind::Delivery,
        owner: job.to_string(),
        after: after.map(|event| event.to_string()),
        newest_first: true,
        limit: limit + 1,
    };
    let mut records = state.list(caller.id, state.store().records(page)).await?;
    let next_cursor = cursors.page(&mut records, limit, |record| record.key.id.clone());
    let now = state.judged_at(|now| records.iter().any(|record| record.is_over(now))).await?;
    let shown = records.iter().filter(|record| !record.is_over(now));
    let read = |record: &Record| readable("delivery", || record.key.id.clone(), parsed(record));
    let mut deliveries = Vec::new();
    for record in shown {
        deliveries.extend(read(record)?.map(|delivery| show::delivery(record, delivery, false)));
    }
    Ok(Json(Deliveries { deliveries, next_cursor }).into_response())
}

pub(super) async fn show(
    caller: Caller,
    State(state): State<Shared>,
    Path((Id(job), Id(event))): Path<(Id<JobId>, Id<EventId>)>,
    query: Query,
) -> Result<Response> {
    query.none()?;
    job_of(&state, &caller, job).await?;
    let (record, delivery) = find(&state, job, event).await?;
    Ok(Json(show::delivery(&record, delivery, true)).into_response())
}

/// Makes it due again, with as much time as it had at first.
pub(super) async fn replay(
    caller: Caller,
    State(state): State<Shared>,
    Path((Id(job), Id(event))): Path<(Id<JobId>, Id<EventId>)>,
    query: Query,
) -> Result<Response> {
    query.none()?;
    let job = job_of(&state, &caller, job).await?.job;
    for _ in 0..LOOKS_MAX {
        let (seen, mut delivery) = find(&state, job.id, event).await?;
        has_target(&job, &delivery)?;
        let now = state.now();
        // Somebody is at it right now: a second try beside that would tell its receiver twice for nothing.
        let under_way = delivery.state == DeliveryState::Pending
            && delivery.is_open()
            && seen.due.is_some_and(|due| due > now);
        if under_way {
            return Ok(accepted(&seen, delivery));
        }
        delivery.replay(now);
        let record = delivery.record(RecordVersion::new(&state.entropy), Some(now));
        let write = RecordWrite::put(record.clone(), Expected::Version(seen.version));
        if state.store().write_record(write).await? {
            return Ok(accepted(&record, delivery));
        }
    }
    Err(ApiError::new(Code::Conflict, "The delivery is being changed by somebody else right now."))
}

fn accepted(record: &Record, delivery: Delivery) -> Response {
    (StatusCode::ACCEPTED, Json(show::delivery(record, delivery, true))).into_response()
}

/// Where it went may have been taken away since.
fn has_target(job: &Job, delivery: &Delivery) -> Result<()> {
    let enabled = job.spec.webhook.as_ref().is_some_and(|hook| hook.is_enabled());
    match delivery.target {
        Target::Webhook if !enabled => {
            Err(ApiError::new(Code::Conflict, "The job has no webhook that it could be sent to."))
        }
        Target::Webhook | Target::StepFunctions => Ok(()),
    }
}

async fn find(state: &ApiState, job: JobId, event: EventId) -> Result<(Record, Delivery)> {
    let record = state.store().record(&delivery_key(job, event)).await?.ok_or_else(ApiError::not_found)?;
    if record.is_over(state.judged_at(|now| record.is_over(now)).await?) {
        return Err(ApiError::not_found());
    }
    let delivery = parse(&record)?;
    Ok((record, delivery))
}

fn parse(record: &Record) -> Result<Delivery> {
    Ok(parsed(record)?)
}

fn parsed(record: &Record) -> conveyor_store::Result<Delivery> {
    record.parse().map_err(|e| conveyor_store::Error::Corrupt(e.to_string()))
}
