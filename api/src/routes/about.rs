//! What a process says of itself without a key: its API, described, and for operators and their probes, how it is (SPEC 15).

use super::{clock, shutting_down};
use crate::openapi;
use crate::problem::Result;
use crate::readiness;
use crate::state::Shared;
use axum::Json;
use axum::extract::State;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::IntoResponse;
use conveyor_wire::{Health, HealthStatus};

pub(super) async fn document() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], openapi::document_text())
}

pub(super) async fn docs() -> impl IntoResponse {
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        // It needs nothing from anywhere, and runs nothing.
        (CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'"),
    ];
    (headers, openapi::page())
}

/// The process runs. It asks nobody: a store that is away is no reason to be restarted.
pub(super) async fn healthz() -> Json<Health> {
    Json(Health { status: HealthStatus::Ok.into(), warnings: Vec::new() })
}

pub(super) async fn readyz(State(state): State<Shared>) -> Result<Json<Health>> {
    if state.is_shutting_down() {
        return Err(shutting_down());
    }
    let watch = readiness::check(&state).await?;
    let warnings = clock::warnings(state.clock.as_ref(), watch.as_ref());
    Ok(Json(Health { status: HealthStatus::Ready.into(), warnings }))
}

pub(super) async fn metrics(State(state): State<Shared>) -> impl IntoResponse {
    let text = state.metrics_page.text(|| (state.metrics)()).await;
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}
