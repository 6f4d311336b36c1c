//! The routes of SPEC 10, one module per thing they are about.

mod audit;
mod callers;
mod clock;
mod complete;
mod content;
mod dead_letters;
mod deliveries;
mod docs;
mod events;
mod exported;
mod exports;
mod health;
mod hmac;
mod ingest;
mod inputs;
mod jobs;
mod keys;
mod leases;
mod limits;
mod reconcile;
mod rerun;
mod results;
mod runs;
mod schedule;
mod submit;
mod table;
mod tasks;
mod uploads;
mod webhook;

use crate::answer;
use crate::auth::{Caller, Operator};
use crate::problem::{ApiError, Code, Result};
use crate::request_rates;
use crate::shares::in_flight;
use crate::show::is_there;
use crate::state::{ApiState, Shared};
use crate::unread;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{delete, get, post, put};
use conveyor_domain::job::retention::rows_are_over;
use conveyor_domain::{CallerId, Command, Job, JobId, JobStatus, QueueName, Run, RunId, RunStatus, TaskRef};
use conveyor_store::port::{JobView, RunKey, RunView, RunsQuery};
use table::Routes;

pub(crate) fn all(state: Shared) -> Router {
    let serving = middleware::from_fn_with_state(state.clone(), refuse_while_shutting_down);
    let with_room = middleware::from_fn_with_state(state.clone(), in_flight::with_room);
    let keyed = with_key().merge(with_operator_key()).router.layer(middleware::from_fn(request_rates::tell));
    let open = with_signature().merge(described()).router;
    Router::new()
        .merge(keyed.merge(open).layer(with_room).layer(serving))
        .merge(operations().router)
        .fallback(|| async { ApiError::not_found() })
        // Last, so outermost: also around the fallbacks.
        .layer(middleware::from_fn_with_state(state.clone(), answer::complete))
        .layer(middleware::from_fn(unread::discard))
        .layer(middleware::from_fn(in_flight::hold))
        .with_state(state)
}

pub(crate) fn operations_alone(state: Shared) -> Router {
    operations()
        .router
        .fallback(|| async { ApiError::not_found() })
        .layer(middleware::from_fn_with_state(state.clone(), answer::complete))
        .with_state(state)
}

/// The paths of all routes.
#[cfg(test)]
pub(crate) fn paths() -> Vec<&'static str> {
    let keyed = with_key().merge(with_operator_key());
    keyed.merge(with_signature()).merge(described()).merge(operations()).paths
}

/// What the API says of itself: nothing secret, so no key.
fn described() -> Routes {
    Routes::new()
        .route("/v1/openapi.json", get(docs::document))
        .route("/v1/docs", get(docs::page))
        .method_not_allowed_fallback(method_not_allowed)
}

/// What a signed URL opens.
fn with_signature() -> Routes {
    Routes::new()
        .route("/v1/content/{job}/{run}/{task}", get(content::by_signature))
        .route("/v1/exports/{job}/{run}/{export}", get(exported::by_signature))
        .route("/v1/uploads/{caller}/{upload}", put(uploads::put_whole))
        .route("/v1/uploads/{caller}/{upload}/parts/{number}", put(uploads::put_part))
        .method_not_allowed_fallback(method_not_allowed)
}

/// Everything that needs a key. A route without [`Caller`] does not belong here.
fn with_key() -> Routes {
    Routes::new()
        .route("/v1/jobs", post(submit::submit).get(jobs::list))
        .route("/v1/job_inputs", post(inputs::create).get(inputs::list))
        .route("/v1/job_inputs/{upload}", get(inputs::show).delete(inputs::abort))
        .route("/v1/job_inputs/{upload}/parts", post(inputs::sign_parts))
        .route("/v1/job_inputs/{upload}/complete", post(complete::complete))
        .route("/v1/jobs/{job}", get(jobs::show).patch(limits::change).delete(jobs::delete))
        .route("/v1/jobs/{job}/tasks", post(tasks::add))
        .route("/v1/jobs/{job}/close", post(jobs::close))
        .route("/v1/jobs/{job}/stop", jobs::on_run(Command::Stop))
        .route("/v1/jobs/{job}/cancel", jobs::on_run(Command::Stop))
        .route("/v1/jobs/{job}/pause", jobs::on_run(Command::Pause))
        .route("/v1/jobs/{job}/resume", jobs::on_run(Command::Resume))
        .route("/v1/jobs/{job}/limits", get(limits::show))
        .route("/v1/jobs/{job}/schedule", put(schedule::replace))
        .route("/v1/jobs/{job}/schedule/state", post(schedule::turn))
        .route("/v1/leases", get(leases::list))
        .route("/v1/jobs/{job}/rerun", post(rerun::rerun))
        .route("/v1/jobs/{job}/webhook", get(webhook::show).put(webhook::put).delete(webhook::delete))
        .route("/v1/webhook/test", post(webhook::test))
        .route("/v1/hmac/keys", get(hmac::list))
        .route("/v1/hmac/keys/rotate", post(hmac::rotate).delete(hmac::cancel))
        .route("/v1/hmac/keys/rotate/finalize", post(hmac::finalize))
        .route("/v1/jobs/{job}/deliveries", get(deliveries::list))
        .route("/v1/jobs/{job}/deliveries/{event}", get(deliveries::show))
        .route("/v1/jobs/{job}/deliveries/{event}/replay", post(deliveries::replay))
        .route("/v1/jobs/{job}/events", get(events::list))
        .route("/v1/jobs/{job}/runs", get(runs::list))
        .route("/v1/jobs/{job}/runs/{run}", get(runs::show).delete(runs::delete))
        .route("/v1/jobs/{job}/runs/{run}/audit", get(audit::show))
        .route("/v1/jobs/{job}/runs/{run}/audit/bodies", get(audit::bodies))
        .route("/v1/jobs/{job}/runs/{run}/ingest", get(ingest::show))
        .route("/v1/jobs/{job}/runs/{run}/ingest/rejected", get(ingest::rejected))
        .route("/v1/jobs/{job}/runs/{run}/exports", post(exports::start).get(exports::list))
        .route("/v1/jobs/{job}/runs/{run}/exports/{export}", get(exports::show).delete(exports::remove))
        .route("/v1/jobs/{job}/results", get(results::of_latest))
        .route("/v1/jobs/{job}/runs/{run}/results", get(results::of_run))
        .route("/v1/jobs/{job}/tasks/{task}/content", get(content::of_latest))
        .route("/v1/jobs/{job}/runs/{run}/tasks/{task}/content", get(content::of_run))
        .route("/v1/jobs/{job}/tasks/{task}/history", get(tasks::history_of_latest))
        .route("/v1/jobs/{job}/runs/{run}/tasks/{task}/history", get(tasks::history_of_run))
        // Which methods a route has is something about it: not without a key either.
        .method_not_allowed_fallback(|_: Caller| method_not_allowed())
}

/// What operators do. A route without [`Operator`] does not belong here.
fn with_operator_key() -> Routes {
    Routes::new()
        .route("/v1/admin/reconcile", post(reconcile::reconcile))
        .route("/v1/admin/clock", get(clock::show))
        .route("/v1/admin/clock/confirm", post(clock::confirm))
        .route("/v1/admin/keys", post(keys::create).get(keys::list))
        .route("/v1/admin/keys/{key_id}", delete(keys::revoke))
        .route("/v1/admin/callers/{caller}", get(callers::show).patch(callers::change))
        .route("/v1/admin/dead_letters", get(dead_letters::list))
        .route("/v1/admin/dead_letters/redrive", post(dead_letters::redrive_many))
        .route("/v1/admin/dead_letters/{letter}", get(dead_letters::show).delete(dead_letters::purge))
        .route("/v1/admin/dead_letters/{letter}/redrive", post(dead_letters::redrive))
        .method_not_allowed_fallback(|_: Operator| method_not_allowed())
}

fn operations() -> Routes {
    Routes::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::metrics))
        .method_not_allowed_fallback(method_not_allowed)
}

/// Axum adds the `Allow` header.
async fn method_not_allowed() -> ApiError {
    ApiError::new(Code::MethodNotAllowed, "The route does not have this method.")
}

async fn refuse_while_shutting_down(
    State(state): State<Shared>,
    request: Request,
    next: Next,
) -> Result<Response> {
    if state.is_shutting_down() { Err(shutting_down()) } else { Ok(next.run(request).await) }
}

fn shutting_down() -> ApiError {
    ApiError::new(Code::Unavailable, "The process is shutting down.")
}

/// A job of this caller, with the latest of its runs that was not deleted.
async fn job_of(state: &ApiState, caller: &Caller, job: JobId) -> Result<JobView> {
    let view = state.store().job(caller.id, job).await?.ok_or_else(ApiError::not_found)?;
    with_latest_kept(state, caller.id, view).await
}

/// The job as readers see it, once a command changed it. `apply` itself does not ask whose job it is; a job never changes
/// hands, so looking first is enough.
async fn applied(state: &ApiState, caller: CallerId, job: JobId, command: Command) -> Result<JobView> {
    let view = state.store().apply(job, command, state.now()).await?;
    with_latest_kept(state, caller, view).await
}

/// If its latest run was deleted, the one before takes its place for readers; with none before, it stays until it is removed.
/// Only a job whose latest run was deleted costs this read.
async fn with_latest_kept(state: &ApiState, caller: CallerId, mut view: JobView) -> Result<JobView> {
    let is_deleted = |run: &Run| run.status == RunStatus::Deleted && !run.is_template();
    if view.job.status == JobStatus::Deleted || !is_deleted(&view.latest.run) {
        return Ok(view);
    }
    let mut query = RunsQuery::newest(view.job.id, conveyor_domain::limits::PAGE_MAX);
    loop {
        let page = state.list(caller, state.store().runs(query)).await?;
        let last = page.rows.last().map(|view| view.run.id);
        if let Some(kept) = page.rows.into_iter().find(|view| !is_deleted(&view.run)) {
            view.latest = kept;
            return Ok(view);
        }
        match page.next.or(last) {
            Some(before) => query.before = Some(before),
            None => return Ok(view),
        }
    }
}

/// A run, with the job that it is one of.
struct FoundRun {
    job: Job,
    view: RunView,
}

impl FoundRun {
    /// Where its tasks are, unless nobody is to see them any more.
    async fn rows(&self, state: &ApiState) -> Result<RunKey> {
        rows_of(state, &self.view.run).await
    }
}

async fn rows_of(state: &ApiState, run: &Run) -> Result<RunKey> {
    if run.status == RunStatus::Deleted {
        // They are being removed: half of a list must not pass for one.
        return Err(ApiError::expired("The run was deleted."));
    }
    let now = state.judged_at(|now| rows_are_over(run, now)).await?;
    match rows_are_over(run, now) {
        true => Err(ApiError::expired("The run ended so long ago that its tasks are no longer kept.")),
        false => Ok(RunKey { job: run.job, run: run.id }),
    }
}

/// A run of a job of this caller; the latest if none is named.
async fn run_of(state: &ApiState, caller: &Caller, job: JobId, run: Option<RunId>) -> Result<FoundRun> {
    let JobView { job, latest } = job_of(state, caller, job).await?;
    let view = match run {
        Some(run) if run != latest.run.id => state.store().run(job.id, run).await?,
        Some(_) | None => Some(latest),
    };
    let view = view.filter(|view| is_there(&view.run)).ok_or_else(ApiError::not_found)?;
    Ok(FoundRun { job, view })
}

/// Sends the refs of rows that are already durable.
async fn send(state: &ApiState, run: RunId, unsent: &[TaskRef]) {
    if unsent.is_empty() {
        return;
    }
    let bodies = unsent.iter().map(TaskRef::to_string).collect();
    if let Err(error) = state.backend.queue.send(QueueName::Run(run), bodies, state.now()).await {
        // Not an error of the request: the tasks are accepted, and a lost message costs time, never data (SPEC 3.4).
        // Refusing here would make the caller repeat a submit that already happened.
        tracing::warn!(%run, %error, "task refs were not sent; a sweep will");
    }
}
