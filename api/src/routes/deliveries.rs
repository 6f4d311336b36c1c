//! Notifications of a job, and what came of them (SPEC 6.21).

use crate::cursor::Cursors;
use crate::path::{Id, OwnedJob};
use crate::problem::{ApiError, Code, Result};
use crate::query::{NoQuery, Query};
use crate::state::ApiState;
use axum::Json;
use axum::http::StatusCode;
use conveyor_domain::delivery::webhook::Target;
use conveyor_domain::delivery::{Attempt, delivery_key};
use conveyor_domain::job::record::Expected;
use conveyor_domain::{
    Delivery, DeliveryState, EventId, Job, JobId, Record, RecordKind, RecordVersion, RecordWrite,
};
use conveyor_store::Error;
use conveyor_store::port::{JobView, RecordsQuery, readable};
use conveyor_wire::{self as wire, Deliveries, Time};

/// Looks again this often if somebody else was quicker.
const LOOKS_MAX: u32 = 5;

pub(super) async fn list(
    OwnedJob { state, caller, view }: OwnedJob,
    query: Query,
) -> Result<Json<Deliveries>> {
    let job = view.job.id;
    let asked = query.page::<EventId>(Cursors::new(&state, caller.id, &format!("deliveries|{job}")))?;
    let page = RecordsQuery {
        kind: RecordKind::Delivery,
        owner: job.to_string(),
        after: asked.after.map(|event| event.to_string()),
        newest_first: true,
        limit: asked.limit + 1,
    };
    let mut records = state.list(caller.id, state.store().records(page)).await?;
    let next_cursor = asked.page(&mut records, |record| record.key.id.clone());
    let now = state.judged_at(|now| records.iter().any(|record| record.is_over(now))).await?;
    let kept = records.iter().filter(|record| !record.is_over(now));
    let read =
        |record: &Record| readable("delivery", || record.key.id.clone(), record.parse().map_err(Error::from));
    let mut deliveries = Vec::new();
    for record in kept {
        deliveries.extend(read(record)?.map(|delivery| shown(record, delivery, false)));
    }
    Ok(Json(Deliveries { deliveries, next_cursor }))
}

pub(super) async fn show(
    OwnedJob { state, view, .. }: OwnedJob,
    Id(event): Id<EventId>,
    _: NoQuery,
) -> Result<Json<wire::Delivery>> {
    let (record, delivery) = find(&state, view.job.id, event).await?;
    Ok(Json(shown(&record, delivery, true)))
}

/// Makes it due again, with as much time as it had at first.
pub(super) async fn replay(
    OwnedJob { state, view: JobView { job, .. }, .. }: OwnedJob,
    Id(event): Id<EventId>,
    _: NoQuery,
) -> Result<(StatusCode, Json<wire::Delivery>)> {
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

fn accepted(record: &Record, delivery: Delivery) -> (StatusCode, Json<wire::Delivery>) {
    (StatusCode::ACCEPTED, Json(shown(record, delivery, true)))
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
    let delivery = record.parse().map_err(Error::from)?;
    Ok((record, delivery))
}

/// `whole`: with what is sent.
fn shown(record: &Record, delivery: Delivery, whole: bool) -> wire::Delivery {
    wire::Delivery {
        event_id: delivery.event,
        event_type: delivery.kind.into(),
        target: delivery.target.into(),
        run_id: delivery.run,
        state: delivery.state.into(),
        next_attempt_at: record.due.map(Time),
        reason: delivery.reason,
        occurred_at: Time(delivery.occurred),
        attempts_made: delivery.attempts_made,
        attempts: delivery.attempts.iter().map(attempt).collect(),
        event: whole.then(|| serde_json::from_str(&delivery.body).unwrap_or_default()),
    }
}

fn attempt(Attempt { started, ended }: &Attempt) -> wire::DeliveryAttempt {
    let ended = ended.as_ref();
    wire::DeliveryAttempt {
        started_at: Time(*started),
        delivered: ended.map(|end| end.error.is_none()),
        status_code: ended.and_then(|end| end.status_code),
        error: ended.and_then(|end| end.error.clone()),
        elapsed_ms: ended.map(|end| end.elapsed_ms),
    }
}
