//! For operators and their probes (SPEC 15). No key.

use super::shutting_down;
use crate::problem::Result;
use crate::readiness;
use crate::state::Shared;
use crate::wire::clock;
use crate::wire::health::HealthJson;
use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

/// The process runs. It asks nobody: a store that is away is no reason to be restarted.
pub(super) async fn healthz() -> Json<HealthJson> {
    Json(HealthJson { status: "ok", warnings: Vec::new() })
}

pub(super) async fn readyz(State(state): State<Shared>) -> Result<Json<HealthJson>> {
    if state.is_shutting_down() {
        return Err(shutting_down());
    }
    let watch = readiness::check(&state).await?;
    let warnings = clock::warnings(state.clock.as_ref(), watch.as_ref());
    Ok(Json(HealthJson { status: "ready", warnings }))
}

pub(super) async fn metrics(State(state): State<Shared>) -> impl IntoResponse {
    let text = state.metrics_page.text(|| (state.metrics)()).await;
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}
