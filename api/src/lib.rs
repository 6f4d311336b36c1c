//! The HTTP API (SPEC 10): turns requests into operations of the store's ports, and what they answer into JSON.
//!
//! This crate must not know which backend is behind the ports, how tasks are fetched, or where time and randomness come
//! from. It keeps no state of its own: two processes with the same store and secret answer alike.
//!
//! A request passes, from the outside in: `answer` (request id, log line, metrics, problems become bodies), routing,
//! `auth`, then one handler in `routes`, which reads with `path`, `query` and `body` and writes with `wire`.

mod answer;
mod auth;
mod body;
mod cursor;
mod fields;
mod path;
mod problem;
mod query;
mod request_id;
mod routes;
mod signed_url;
mod state;
mod wire;

use axum::Router;
use conveyor_domain::params::ParamPolicy;
use conveyor_domain::seal::Secret;
use conveyor_domain::{Clock, Entropy};
use conveyor_store::Backend;
use state::ApiState;
use std::sync::Arc;
use tokio::sync::watch;

/// Renders the process's metrics as Prometheus text.
pub type MetricsText = Arc<dyn Fn() -> String + Send + Sync>;

/// What an operator decides about the API.
#[derive(Clone, Debug)]
pub struct ApiConfig {
    pub max_body_bytes: usize,
    pub run_tasks_max: u32,
    pub param_policy: ParamPolicy,
    /// Where callers reach this API; result URLs start with it. Without it, they start with the request's own host.
    pub public_url: Option<String>,
    /// Store the caller's key, sealed, in each job, to be forwarded to the gateway.
    pub forward_keys: bool,
}

/// The API over one backend. While `shutting_down` is true, everything but `/healthz` and `/metrics` answers 503.
pub fn router(
    backend: Backend,
    secret: Secret,
    clock: Arc<dyn Clock>,
    entropy: Arc<Entropy>,
    config: ApiConfig,
    metrics: MetricsText,
    shutting_down: watch::Receiver<bool>,
) -> Router {
    routes::all(Arc::new(ApiState { backend, secret, clock, entropy, config, metrics, shutting_down }))
}
