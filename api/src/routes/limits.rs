//! How fast a job may go, why it does not go faster, and who holds what over all live runs of a caller.

use crate::auth::Caller;
use crate::body;
use crate::cursor::Cursors;
use crate::path::{OwnedJob, with_latest_kept};
use crate::problem::{ApiError, Result};
use crate::query::{NoQuery, Query};
use crate::show::{self, Look, is_there, list_state};
use crate::state::{ApiState, Shared};
use crate::wire::limits::parse_change;
use axum::Json;
use axum::extract::State;
use conveyor_domain::dispatch::grant::{Change, Scope};
use conveyor_domain::{CallerId, Command, IngestState, Job, JobId, QueueName, limits};
use conveyor_store::port::{Depth, JobView, JobsQuery, Reader, RunKey, RunView};
use conveyor_wire::{self as wire, Leases};
use futures::{StreamExt, TryStreamExt, stream};

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
    if let Err(error) =
        state.backend.coordinator.change(&scope, Change::Limits(job.spec.limits()), state.now()).await
    {
        // Not an error of the request: the job says so already, and workers that look at it bring the limits along.
        tracing::warn!(job = %job.id, %error, "new limits bind only once workers have seen them");
    }
}

pub(super) async fn show(
    OwnedJob { state, caller, view: JobView { job, latest } }: OwnedJob,
    _: NoQuery,
) -> Result<Json<wire::Limits>> {
    let latest = latest.filter(|latest| is_there(&latest.run)).ok_or_else(ApiError::not_found)?;
    let look = look(&state, (&job, &latest)).await?;
    let shown = limits::DOMAIN_BUDGETS_SHOWN_MAX;
    let domains = state.backend.coordinator.domain_budgets(caller.id, shown, look.now).await?;
    Ok(Json(show::limits((&job, &latest), &look, &domains)))
}

/// How far the list of a run is. A log that cannot be read says nothing; its own route tells why.
async fn list_of(state: &ApiState, caller: CallerId, key: RunKey) -> Result<Option<wire::IngestState>> {
    let ingest = state.list(caller, state.store().ingest(key, Reader::Caller)).await?;
    Ok(ingest.and_then(|ingest| IngestState::fold(&ingest.log).ok()).map(|folded| list_state(&folded)))
}

/// Looks at what a job's workers share, and what they could take.
async fn look(state: &ApiState, (job, latest): (&Job, &RunView)) -> Result<Look> {
    let (scope, now) = (Scope::Job(job.id), state.now());
    let shown_depth = state.backend.queue.depth(QueueName::Run(latest.run.id), Reader::Caller, now);
    let depth = async {
        match latest.run.status.is_terminal() {
            // Nothing of it will be received, and the queue may be gone.
            true => Ok(Depth::default()),
            false => state.list_stored(job.caller, shown_depth).await,
        }
    };
    let (depth, budget) = tokio::try_join!(depth, state.backend.coordinator.budget(&scope, now))?;
    let list = match depth == Depth::default() && latest.run.is_ingesting() {
        true => list_of(state, job.caller, RunKey { job: job.id, run: latest.run.id }).await?,
        false => None,
    };
    Ok(Look { depth, budget, list, now })
}

/// Runs that are looked at at once.
const LOOKS_INFLIGHT: usize = 8;

pub(super) async fn leases(
    caller: Caller,
    State(state): State<Shared>,
    query: Query,
) -> Result<Json<Leases>> {
    let asked = query.page(Cursors::new(&state, caller.id, "leases"))?;
    let live = live_runs(&state, caller.id, asked.after, asked.limit as usize).await?;
    let looks: Vec<_> = live.runs.iter().map(|(job, run)| look(&state, (job, run))).collect();
    let looks: Vec<Look> = stream::iter(looks).buffered(LOOKS_INFLIGHT).try_collect().await?;
    let leases = live.runs.iter().zip(&looks).map(|((job, run), look)| show::lease((job, run), look));
    let leases = leases.collect();
    let next_cursor = live.next.map(|job| asked.cursors.seal(&job));
    Ok(Json(Leases { leases, next_cursor }))
}

struct Live {
    runs: Vec<(Job, RunView)>,
    /// The last job that was looked at, if there may be more.
    next: Option<JobId>,
}

/// Jobs with a live run, newest first. Most jobs of a caller have ended: no more than some are looked at for one page.
async fn live_runs(state: &ApiState, caller: CallerId, after: Option<JobId>, limit: usize) -> Result<Live> {
    let (mut runs, mut before) = (Vec::new(), after);
    for _ in 0..limits::LEASES_LOOK_MAX / limits::PAGE_MAX {
        let most = limits::PAGE_MAX;
        let query = JobsQuery { caller, status: None, scheduled: None, before, limit: most, look: most };
        let page = state.list(caller, state.store().jobs(query)).await?;
        for JobView { job, latest } in page.rows {
            let live = latest.filter(|latest| !latest.run.status.is_terminal());
            if live.is_some() && runs.len() == limit {
                return Ok(Live { runs, next: before });
            }
            before = Some(job.id);
            runs.extend(live.map(|latest| (job, latest)));
        }
        before = page.next;
        if before.is_none() {
            return Ok(Live { runs, next: None });
        }
    }
    Ok(Live { runs, next: before })
}
