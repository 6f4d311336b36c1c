//! For operators and their probes (SPEC 15). No key.

use super::shutting_down;
use crate::problem::Result;
use crate::readiness;
use crate::show;
use crate::state::Shared;
use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use conveyor_wire::{Health, HealthStatus};

/// The process runs. It asks nobody: a store that is away is no reason to be restarted.
pub(super) async fn healthz() -> Json<Health> {
    Json(Health { status: HealthStatus::Ok.into(), warnings: Vec::new() })
}

pub(super) async fn readyz(State(state): State<Shared>) -> Result<Json<Health>> {
    if state.is_shutting_down() {
        return Err(shutting_down());
    }
    let watch = readiness::check(&state).await?;
    let warnings = show::clock_warnings(state.clock.as_ref(), watch.as_ref());
    Ok(Json(Health { status: HealthStatus::Ready.into(), warnings }))
}

pub(super) async fn metrics(State(state): State<Shared>) -> impl IntoResponse {
    let text = state.metrics_page.text(|| (state.metrics)()).await;
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}
