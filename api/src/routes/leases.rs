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
use conveyor_domain::{CallerId, JobId, limits};
use conveyor_store::port::{JobView, JobsQuery};
use conveyor_wire::Leases;
use futures::{StreamExt, TryStreamExt, stream};

/// Runs that are looked at at once.
const LOOKS_INFLIGHT: usize = 8;

pub(super) async fn list(caller: Caller, State(state): State<Shared>, query: Query) -> Result<Json<Leases>> {
    let asked = query.page(Cursors::new(&state, caller.id, "leases"))?;
    let live = live_runs(&state, caller.id, asked.after, asked.limit as usize).await?;
    let looks: Vec<_> = live.views.iter().map(|view| look(&state, view)).collect();
    let looks: Vec<Look> = stream::iter(looks).buffered(LOOKS_INFLIGHT).try_collect().await?;
    let leases = live.views.iter().zip(&looks).map(|(view, look)| show::lease(view, look)).collect();
    let next_cursor = live.next.map(|job| asked.cursors.seal(&job));
    Ok(Json(Leases { leases, next_cursor }))
}

struct Live {
    views: Vec<JobView>,
    /// The last job that was looked at, if there may be more.
    next: Option<JobId>,
}

/// Jobs with a live run, newest first. Most jobs of a caller have ended: no more than some are looked at for one page.
async fn live_runs(state: &ApiState, caller: CallerId, after: Option<JobId>, limit: usize) -> Result<Live> {
    let (mut views, mut before) = (Vec::new(), after);
    for _ in 0..limits::LEASES_LOOK_MAX / limits::PAGE_MAX {
        let most = limits::PAGE_MAX;
        let query = JobsQuery { caller, status: None, scheduled: None, before, limit: most, look: most };
        let page = state.list(caller, state.store().jobs(query)).await?;
        for view in page.rows {
            if view.latest.run.status.is_terminal() {
                before = Some(view.job.id);
            } else if views.len() < limit {
                before = Some(view.job.id);
                views.push(view);
            } else {
                return Ok(Live { views, next: before });
            }
        }
        before = page.next;
        if before.is_none() {
            return Ok(Live { views, next: None });
        }
    }
    Ok(Live { views, next: before })
}
