use crate::cursor::Cursors;
use crate::owned::{OwnedJob, OwnedRun};
use crate::problem::Result;
use crate::query::{NoQuery, Query};
use crate::show;
use crate::submit::forget;
use axum::Json;
use axum::http::StatusCode;
use conveyor_domain::limits;
use conveyor_store::port::RunsQuery;
use conveyor_wire::{Run, Runs};

pub(super) async fn list(OwnedJob { state, caller, view }: OwnedJob, query: Query) -> Result<Json<Runs>> {
    let job = view.job.id;
    let asked = query.page(Cursors::new(&state, caller.id, &format!("runs|{job}")))?;
    let look = limits::LIST_LOOK_MAX;
    let query = RunsQuery { job, before: asked.after, limit: asked.limit + 1, look };
    let mut page = state.list(caller.id, state.store().runs(query)).await?;
    let next_cursor = asked.scanned(&mut page, |view| view.run.id);
    Ok(Json(Runs { runs: page.rows.iter().map(show::run).collect(), next_cursor }))
}

pub(super) async fn show(found: OwnedRun, _: NoQuery) -> Json<Run> {
    Json(show::run(&found.view))
}

pub(super) async fn delete(found: OwnedRun, _: NoQuery) -> Result<(StatusCode, Json<Run>)> {
    let state = &found.state;
    let view = state.store().delete_run(found.key(), state.now()).await?;
    if view.run.sequence == 1 {
        forget(state, found.job.id).await;
    }
    Ok((StatusCode::ACCEPTED, Json(show::run(&view))))
}
