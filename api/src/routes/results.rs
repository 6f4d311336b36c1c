use crate::cursor::Cursors;
use crate::path::OwnedRun;
use crate::problem::Result;
use crate::query::Query;
use crate::signed_url::{BaseUrl, ContentPath, Link, ReadPath, link_expires};
use crate::state::ApiState;
use axum::Json;
use conveyor_domain::job::retention::{is_expired, is_over, result_ttl};
use conveyor_domain::{Job, JobSpec, Problem, ResultRef, Run, RunId, Task, TaskStatus, Timestamp, limits};
use conveyor_store::port::{BlobKey, Reader, RunKey, StatusFilter, TasksQuery, Validity};
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
    let read = state.store().scan_tasks(rows, limits::LOOK_ROWS_MAX, Reader::Caller);
    let mut page = state.list(caller.id, read).await?;
    let next_cursor = asked.scanned(&mut page, |task| task.id);
    let tasks = page.rows;
    let mut results = Vec::with_capacity(tasks.len());
    let spec = &found.job.spec;
    let is_past = |task, now| is_over(task, now) || is_expired(task, spec, now);
    let now = state.judged_at(|now| tasks.iter().any(|task| is_past(task, now))).await?;
    // One that is over is not there, whether or not it was removed yet.
    for task in tasks.into_iter().filter(|task| !is_over(task, now)) {
        let link = result_url(state, &base, &found.job, &found.view.run, &task).await?;
        let expired = is_expired(&task, spec, now);
        results.push(shown(run, task, expired, link));
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

/// Where the body of a result can be had without a key: from the storage itself where it lets callers in and the body has
/// an object of its own, from us otherwise (SPEC 10). `None` for a task that has no result.
async fn result_url(
    state: &ApiState,
    base: &BaseUrl,
    job: &Job,
    run: &Run,
    task: &Task,
) -> Result<Option<Link>> {
    if task.status != TaskStatus::Successful {
        return Ok(None);
    }
    let from = state.now();
    let Some(until) = link_expires(from, state.config.result_url_ttl, seen_until(&job.spec, run, task))
    else {
        return Ok(None);
    };
    if let (Some(direct), Some((object, result))) = (state.direct(), own_object(task)) {
        let validity = Validity { from, until };
        let url = direct.get_url(&object, result.format.content_type(), None, validity).await?;
        return Ok(Some(Link { url, expires: until }));
    }
    let path = ContentPath { job: run.job, run: run.id, task: task.id };
    Ok(Some(Link { url: path.signed(job.caller, &state.secret, base, until), expires: until }))
}

/// Nobody who asks us sees a result past its time, and a URL, which asks nobody, must not show it either.
fn seen_until(spec: &JobSpec, run: &Run, task: &Task) -> Timestamp {
    let until = task.ended().after(result_ttl(spec));
    match run.status.is_terminal() {
        true => until.min(run.updated.after(limits::ROWS_KEPT)),
        false => until,
    }
}

fn own_object(task: &Task) -> Option<(BlobKey, &ResultRef)> {
    let result = task.result.as_ref().filter(|result| result.whole)?;
    Some((result.object.as_ref()?.parse().ok()?, result))
}
