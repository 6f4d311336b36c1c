//! The proxy's own HTTP: faults are changed and counts are read while it runs.

use super::Proxy;
use super::faults::Faults;
use super::stats::Counts;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use std::sync::Arc;

pub fn router(proxy: Arc<Proxy>) -> Router {
    Router::new()
        .route("/faults", get(show_faults).put(set_faults))
        .route("/stats", get(show_stats))
        .with_state(proxy)
}

async fn show_faults(State(proxy): State<Arc<Proxy>>) -> Json<Faults> {
    Json(proxy.faults.borrow().clone())
}

/// All of them at once: what is left out does not happen any more.
async fn set_faults(
    State(proxy): State<Arc<Proxy>>,
    Json(faults): Json<Faults>,
) -> Result<Json<Faults>, (StatusCode, String)> {
    faults.check(proxy.service).map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
    proxy.faults.send_replace(faults.clone());
    Ok(Json(faults))
}

async fn show_stats(State(proxy): State<Arc<Proxy>>) -> Json<Counts> {
    Json(proxy.stats.counts())
}
