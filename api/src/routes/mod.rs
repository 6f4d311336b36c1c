//! The routes of SPEC 10, one module per thing they are about.

mod about;
mod audit;
mod callers;
mod clock;
mod complete;
mod content;
mod dead_letters;
mod deliveries;
mod events;
mod exports;
mod hmac;
mod ingest;
mod inputs;
mod jobs;
mod keys;
mod limits;
mod reconcile;
mod rerun;
mod results;
mod schedule;
mod submit;
mod tasks;
mod uploads;
mod webhook;

use crate::answer;
use crate::auth::{Caller, Operator};
use crate::problem::{ApiError, Code, Result};
use crate::request_rates;
use crate::shares::in_flight;
use crate::state::Shared;
use crate::unread;
use axum::Router;
use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{MethodRouter, delete, get, post, put};
use conveyor_domain::Command;

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

/// Routes that remember their paths, so that none goes without its description (`crate::openapi`).
#[derive(Debug)]
struct Routes {
    router: Router<Shared>,
    paths: Vec<&'static str>,
}

impl Routes {
    fn new() -> Routes {
        Routes { router: Router::new(), paths: Vec::new() }
    }

    fn route(mut self, path: &'static str, methods: MethodRouter<Shared>) -> Routes {
        self.paths.push(path);
        Routes { router: self.router.route(path, methods), paths: self.paths }
    }

    fn merge(mut self, other: Routes) -> Routes {
        self.paths.extend(other.paths);
        Routes { router: self.router.merge(other.router), paths: self.paths }
    }

    fn method_not_allowed_fallback<H, T>(self, handler: H) -> Routes
    where
        H: Handler<T, Shared>,
        T: 'static,
    {
        Routes { router: self.router.method_not_allowed_fallback(handler), paths: self.paths }
    }
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
        .route("/v1/openapi.json", get(about::document))
        .route("/v1/docs", get(about::docs))
        .method_not_allowed_fallback(method_not_allowed)
}

/// What a signed URL opens.
fn with_signature() -> Routes {
    Routes::new()
        .route("/v1/content/{job}/{run}/{task}", get(content::by_signature))
        .route("/v1/exports/{job}/{run}/{export}", get(exports::by_signature))
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
        .route("/v1/leases", get(limits::leases))
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
        .route("/v1/jobs/{job}/runs", get(jobs::runs))
        .route("/v1/jobs/{job}/runs/{run}", get(jobs::run).delete(jobs::delete_run))
        .route("/v1/jobs/{job}/runs/{run}/audit", get(audit::show))
        .route("/v1/jobs/{job}/runs/{run}/audit/bodies", get(audit::bodies))
        .route("/v1/jobs/{job}/runs/{run}/ingest", get(ingest::show))
        .route("/v1/jobs/{job}/runs/{run}/ingest/rejected", get(ingest::rejected))
        .route("/v1/jobs/{job}/runs/{run}/exports", post(exports::start).get(exports::list))
        .route("/v1/jobs/{job}/runs/{run}/exports/{export}", get(exports::show).delete(exports::remove))
        .route("/v1/jobs/{job}/results", get(results::list))
        .route("/v1/jobs/{job}/runs/{run}/results", get(results::list))
        .route("/v1/jobs/{job}/tasks/{task}/content", get(content::show))
        .route("/v1/jobs/{job}/runs/{run}/tasks/{task}/content", get(content::show))
        .route("/v1/jobs/{job}/tasks/{task}/history", get(tasks::history))
        .route("/v1/jobs/{job}/runs/{run}/tasks/{task}/history", get(tasks::history))
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
        .route("/healthz", get(about::healthz))
        .route("/readyz", get(about::readyz))
        .route("/metrics", get(about::metrics))
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
