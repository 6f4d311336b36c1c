//! Who holds what, over all live runs of a caller.

use super::limits::look;
use crate::auth::Caller;
use crate::cursor::Cursors;
use crate::problem::Result;
use crate::query::Query;
use crate::show::{self, Look};
use crate::state::{ApiState, Shared};
use axum::Json;
use axum::extract::State;
use conveyor_domain::{CallerId, Job, JobId, limits};
use conveyor_store::port::{JobView, JobsQuery, RunView};
use conveyor_wire::Leases;
use futures::{StreamExt, TryStreamExt, stream};

/// Runs that are looked at at once.
const LOOKS_INFLIGHT: usize = 8;

pub(super) async fn list(caller: Caller, State(state): State<Shared>, query: Query) -> Result<Json<Leases>> {
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
