//! How fast a job may go, and why it does not go faster.

use crate::body;
use crate::owned::{OwnedJob, with_latest_kept};
use crate::problem::{ApiError, Result};
use crate::query::NoQuery;
use crate::show::{self, Look, is_there, list_state};
use crate::state::ApiState;
use crate::wire::limits::parse_change;
use axum::Json;
use conveyor_domain::dispatch::grant::Scope;
use conveyor_domain::{CallerId, Command, IngestState, Job, QueueName, limits};
use conveyor_store::port::{JobView, RunKey, ShownDepth};
use conveyor_wire as wire;

pub(super) async fn change(
    OwnedJob { state, caller, view }: OwnedJob,
    body: body::Json,
) -> Result<Json<wire::Job>> {
    let command = Command::Limits(body.parse(parse_change)?);
    let view = state.store().apply(view.job.id, command, state.now()).await?;
    announce(&state, &view.job).await;
    let view = with_latest_kept(&state, caller.id, view).await?;
    Ok(Json(show::job(&view, state.now())))
}

/// Makes new limits bind whoever asks next.
async fn announce(state: &ApiState, job: &Job) {
    let scope = Scope::Job(job.id);
    if let Err(error) = state.backend.coordinator.change(&scope, job.spec.limits(), state.now()).await {
        // Not an error of the request: the job says so already, and workers that look at it bring the limits along.
        tracing::warn!(job = %job.id, %error, "new limits bind only once workers have seen them");
    }
}

pub(super) async fn show(
    OwnedJob { state, caller, view }: OwnedJob,
    _: NoQuery,
) -> Result<Json<wire::Limits>> {
    if !is_there(&view.latest.run) {
        return Err(ApiError::not_found());
    }
    let look = look(&state, &view).await?;
    let shown = limits::DOMAIN_BUDGETS_SHOWN_MAX;
    let domains = state.backend.coordinator.domain_budgets(caller.id, shown, look.now).await?;
    Ok(Json(show::limits(&view, &look, &domains)))
}

/// How far the list of a run is. A log that cannot be read says nothing; its own route tells why.
async fn list_of(state: &ApiState, caller: CallerId, key: RunKey) -> Result<Option<wire::IngestState>> {
    let ingest = state.list(caller, state.store().shown_ingest(key)).await?;
    Ok(ingest.and_then(|ingest| IngestState::fold(&ingest.log).ok()).map(|folded| list_state(&folded)))
}

/// Looks at what a job's workers share, and what they could take.
pub(super) async fn look(state: &ApiState, JobView { job, latest }: &JobView) -> Result<Look> {
    let (scope, now) = (Scope::Job(job.id), state.now());
    let shown_depth = state.backend.queue.shown_depth(QueueName::Run(latest.run.id), now);
    let depth = async {
        match latest.run.status.is_terminal() {
            // Nothing of it will be received, and the queue may be gone.
            true => Ok(ShownDepth::default()),
            false => state.list_stored(job.caller, shown_depth).await,
        }
    };
    let (depth, budget) = tokio::try_join!(depth, state.backend.coordinator.budget(&scope, now))?;
    let list = match depth == ShownDepth::default() && latest.run.is_ingesting() {
        true => list_of(state, job.caller, RunKey { job: job.id, run: latest.run.id }).await?,
        false => None,
    };
    Ok(Look { depth, budget, list, now })
}
