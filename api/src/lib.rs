//! The HTTP API (SPEC 10): turns requests into operations of the store's ports, and what they answer into JSON.
//!
//! This crate must not know which backend is behind the ports, how tasks are fetched, or where time and randomness come
//! from. It keeps no state of its own but for what it read a moment ago: two processes with the same store and secret
//! answer alike.
//!
//! A request passes, from the outside in: `answer` (request id, log line, metrics, problems become bodies), routing,
//! `auth`, which also takes a place of what callers share (`shares`), then one handler in `routes`, which reads with
//! `path`, `query` and `body` and writes with `show`, which makes bodies of the crate `conveyor-wire`.

mod admission;
mod answer;
mod auth;
mod body;
mod counting;
mod cursor;
mod direct;
mod dry_run;
mod event_stream;
mod idempotency;
mod incoming;
mod invalid_tasks;
mod known_keys;
mod managed_keys;
mod metrics_page;
mod openapi;
mod operations;
mod path;
mod problem;
mod query;
mod readiness;
mod rejected_rows;
mod request_rates;
mod rerun;
mod routes;
mod shares;
mod show;
mod signed_url;
mod split;
mod staged;
mod state;
mod submit;
mod unread;
mod waiting;
mod warnings;
mod webhooks;
mod wire;

pub use openapi::{document as openapi_document, document_text as openapi_text};
pub use submit::{Accepted, NotAccepted};
pub use webhooks::Webhooks;

pub use auth::{NO_OPERATOR_KEY, OperatorKeys};
pub use managed_keys::{AbsentKeys, settle_keys};
pub use operations::{Operations, Reconcile, reconciled_document};
pub use shares::{BodyDeadlines, Peer, Shares};

use axum::Router;
use conveyor_domain::{Clock, Entropy, KeyHash, ParamPolicy, Quotas, RequestRate, Secret};
use conveyor_store::Backend;
use state::ApiState;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Renders the process's metrics as Prometheus text.
pub type MetricsText = Arc<dyn Fn() -> String + Send + Sync>;

/// What an operator decides about the API.
#[derive(Clone, Debug)]
pub struct ApiConfig {
    pub max_body_bytes: usize,
    /// Most tasks that a request writes before it answers (201); more are staged and ingested (202).
    pub inline_tasks_max: usize,
    pub run_tasks_max: u32,
    /// A staged list, as it is uploaded, and expanded.
    pub list_max_bytes: u64,
    pub list_expanded_max_bytes: u64,
    /// How long a submit may count a list that nobody has counted. 0: its ingest counts.
    pub count_within: Duration,
    pub param_policy: ParamPolicy,
    /// Tasks are answered by this process itself: no site is asked.
    pub built_in_gateway: bool,
    /// Where callers reach this API; result URLs start with it. Without it, they start with the request's own host.
    pub public_url: Option<String>,
    /// Store the caller's key, sealed, in each job, to be forwarded to the gateway.
    pub forward_keys: bool,
    /// For how long results of jobs that do not say so themselves can be seen.
    pub result_ttl_days: u32,
    /// How long a signed URL of a result or an export is good.
    pub result_url_ttl: Duration,
    /// What callers may have of whom no operator said otherwise.
    pub quotas: Quotas,
    /// How many requests of one caller this process takes; `None` is no limit.
    pub requests: Option<RequestRate>,
    /// Requests with a known key that this process answers at once, of all callers: fewer than it has connections.
    pub requests_inflight_max: usize,
    pub shares: Shares,
}

/// The API over one backend, and what it needs. While `shutting_down` is true, everything but `/healthz` and `/metrics`
/// answers 503.
#[derive(Clone)]
pub struct Api {
    pub backend: Backend,
    pub secret: Secret,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<Entropy>,
    pub config: ApiConfig,
    pub operations: Arc<dyn Operations>,
    pub webhooks: Arc<dyn Webhooks>,
    /// Beside those that operators made.
    pub operators: OperatorKeys,
    /// Hashes of keys that the store accepts: a flood of unknown ones slows down none of these.
    pub accepted: Vec<KeyHash>,
    pub metrics: MetricsText,
    pub shutting_down: watch::Receiver<bool>,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Api {
    pub fn router(self) -> Router {
        routes::all(Arc::new(ApiState::new(self)))
    }

    /// Health and metrics alone, for a role that does not serve the API.
    pub fn operations(self) -> Router {
        routes::operations_alone(Arc::new(ApiState::new(self)))
    }
}
