use crate::cursor::Cursors;
use crate::owned::OwnedRun;
use crate::problem::Result;
use crate::query::Query;
use crate::result_url;
use crate::signed_url::{BaseUrl, Link};
use axum::Json;
use conveyor_domain::job::retention::{is_expired, is_over};
use conveyor_domain::{Problem, RunId, Task, TaskStatus, limits};
use conveyor_store::port::{RunKey, StatusFilter, TasksQuery};
use conveyor_wire::{self as wire, Results, Time};

/// `processing` is what the batch client calls everything that has not ended.
const FILTERS: [(&str, StatusFilter); 4] = [
    ("all", StatusFilter::All),
    ("successful", StatusFilter::Successful),
    ("failed", StatusFilter::Failed),
    ("processing", StatusFilter::Unfinished),
];

pub(super) async fn list(found: OwnedRun, base: BaseUrl, query: Query) -> Result<Json<Results>> {
    let query = query.only(&["status", "limit", "cursor"])?;
    let filter = query.choice("status", &FILTERS)?.unwrap_or_default();
    let OwnedRun { state, caller, .. } = &found;
    let key @ RunKey { job, run } = found.key();
    // The run, not "the latest": pages of one list must not come from two runs.
    let cursors = Cursors::new(state, caller.id, &format!("results|{job}|{run}|{filter:?}"));
    let asked = query.page(cursors, limits::RESULTS_PAGE_DEFAULT, limits::RESULTS_PAGE_MAX)?;
    found.rows().await?;
    // Rows differ in size a thousandfold, so it may end early.
    let (after, limit) = (asked.after, asked.limit + 1);
    let rows = TasksQuery { key, filter, after, limit, max_bytes: limits::RESULTS_PAGE_BYTES };
    let read = state.store().scan_tasks(rows, limits::LOOK_ROWS_MAX);
    let mut page = state.list(caller.id, read).await?;
    let next_cursor = asked.scanned(&mut page, |task| task.id);
    let tasks = page.rows;
    let mut results = Vec::with_capacity(tasks.len());
    let spec = &found.job.spec;
    let is_past = |task, now| is_over(task, now) || is_expired(task, spec, now);
    let now = state.judged_at(|now| tasks.iter().any(|task| is_past(task, now))).await?;
    // One that is over is not there, whether or not it was removed yet.
    for task in tasks.into_iter().filter(|task| !is_over(task, now)) {
        let result_url = result_url::of(state, &base, &found.job, &found.view.run, &task).await?;
        let expired = is_expired(&task, spec, now);
        results.push(shown(run, task, expired, result_url));
    }
    Ok(Json(Results { results, next_cursor }))
}

/// With the URL of its result, if it has one that can still be seen.
fn shown(run: RunId, task: Task, expired: bool, result: Option<Link>) -> wire::Task {
    let successful = task.status == TaskStatus::Successful;
    let link = result.filter(|_| successful && !expired);
    let (result_url, result_url_expires_at) = link.map(|link| (link.url, Time(link.expires))).unzip();
    // A task that waits for another attempt may carry the error of the last one; that belongs to its history.
    // A damaged row is marked in whatever state it is (SPEC 6.14).
    let shown = |error: &Problem| task.status == TaskStatus::Failed || error.is_damage();
    wire::Task {
        task_id: task.id,
        external_id: task.input.external_id,
        run_id: run,
        url: task.input.url,
        metadata: task.input.metadata,
        method: Some(task.input.method).filter(|method| !method.is_get()).map(wire::Open::from),
        status: if expired {
            wire::TaskStatus::Expired.into()
        } else {
            wire::TaskStatus::from(task.status).into()
        },
        format: task.result.filter(|_| successful).map(|result| result.format.into()),
        result_url,
        result_url_expires_at,
        error: task.error.filter(shown),
        source_run_id: task.inherited.map(|from| from.run),
        created_at: Time(task.created),
        updated_at: Time(task.updated),
    }
}
