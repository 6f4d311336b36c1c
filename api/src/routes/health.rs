//! For operators and their probes (SPEC 15). No key.

use super::shutting_down;
use crate::problem::Result;
use crate::state::Shared;
use crate::wire::health::HealthJson;
use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use conveyor_domain::limits;
use conveyor_store::Error;

/// The process runs. It asks nobody: a store that is away is no reason to be restarted.
pub(super) async fn healthz() -> Json<HealthJson> {
    Json(HealthJson { status: "ok" })
}

pub(super) async fn readyz(State(state): State<Shared>) -> Result<Json<HealthJson>> {
    if state.is_shutting_down() {
        return Err(shutting_down());
    }
    let backend = &state.backend;
    let asked = async { tokio::join!(backend.store.ready(), backend.queue.ready(), backend.blobs.ready()) };
    let late = |_| Error::Unavailable("no answer in time".to_owned());
    let (store, queue, blobs) = tokio::time::timeout(limits::READY_WITHIN, asked).await.map_err(late)?;
    store.and(queue).and(blobs)?;
    Ok(Json(HealthJson { status: "ready" }))
}

pub(super) async fn metrics(State(state): State<Shared>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], (state.metrics)())
}
