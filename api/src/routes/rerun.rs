//! Another run of a job, with the tasks of an earlier one (SPEC 6.19): written on the request if they are few (201), otherwise
//! ingested (202).

use super::{job_of, rows_of};
use crate::auth::Caller;
use crate::body;
use crate::path::{Id, Path};
use crate::problem::{ApiError, Code, Result};
use crate::query::Query;
use crate::state::{ApiState, Shared};
use crate::wire::rerun::{PARAMETERS, RerunJson, parse_overrides, parse_selection};
use crate::wire::run::{RunJson, is_there};
use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{LOCATION, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use conveyor_domain::ingest::IngestEvent;
use conveyor_domain::lifecycle::{NewRun, NewTasks};
use conveyor_domain::params::Params;
use conveyor_domain::rerun::{Replay, ReplayedTask, Selection, inherited_counts};
use conveyor_domain::run::{RunStatus, Trigger};
use conveyor_domain::{JobId, RunId, RunStats, TaskStatus, limits};
use conveyor_store::port::{JobView, RunKey, StartRun, StatusFilter, TasksQuery};

pub(super) async fn rerun(
    caller: Caller,
    State(state): State<Shared>,
    Path(Id(job)): Path<Id<JobId>>,
    query: Query,
    request: Request,
) -> Result<Response> {
    // Before anything about the rest: another caller's job must not show by how far a check gets.
    let view = job_of(&state, &caller, job).await?;
    let selection = parse_selection(&query.only(PARAMETERS)?)?;
    let max = limits::SUBMIT_REST_MAX_BYTES.min(state.config.max_body_bytes);
    let overrides = match body::read_json_if_any(request, max, &state.bodies).await? {
        Some(body) => parse_overrides(&body.bytes, state.config.param_policy, &view.job.spec.params)?,
        None => Params::new(),
    };
    let planned = plan(&state, &view, &selection, overrides).await?;
    let Planned { start, retried, inherited, rerun_of } = planned;
    let accepted = start.log.is_some();
    let view = state.store().start_run(start, state.now()).await?;
    Ok(answer(&view, accepted, rerun_of, retried, inherited))
}

fn answer(
    view: &JobView,
    accepted: bool,
    rerun_of: Option<RunId>,
    retried_tasks: u32,
    inherited_tasks: u32,
) -> Response {
    let body = RerunJson {
        job_id: view.job.id,
        status: view.job.status,
        latest_run: RunJson::from(&view.latest),
        rerun_of,
        retried_tasks,
        inherited_tasks,
    };
    let run = &view.latest.run;
    match accepted {
        false => (StatusCode::CREATED, Json(body)).into_response(),
        true => {
            let location = format!("/v1/jobs/{}/runs/{}", run.job, run.id);
            let headers = [(LOCATION, location), (RETRY_AFTER, "1".to_owned())];
            (StatusCode::ACCEPTED, headers, Json(body)).into_response()
        }
    }
}

/// A rerun that can be begun.
struct Planned {
    start: StartRun,
    retried: u32,
    inherited: u32,
    rerun_of: Option<RunId>,
}

async fn plan(
    state: &ApiState,
    JobView { job, latest }: &JobView,
    selection: &Selection,
    overrides: Params,
) -> Result<Planned> {
    let earlier = &latest.run;
    if earlier.is_ingesting() {
        let detail = "The list of the latest run is still being ingested.";
        return Err(ApiError::new(Code::RunNotTerminal, detail));
    }
    if !earlier.status.is_terminal() {
        let detail = format!("The latest run is {}.", earlier.status.as_str());
        return Err(ApiError::new(Code::RunNotTerminal, detail));
    }
    if !is_there(earlier) || earlier.status == RunStatus::Deleted {
        return Err(ApiError::new(
            Code::NoPriorRun,
            "The latest run was deleted: there is nothing to replay.",
        ));
    }
    let now = state.now();
    if !selection.is_everything() && earlier.created.after(limits::PARTIAL_RERUN_WINDOW) <= now {
        let detail = "The latest run began more than 10 days ago. A full rerun still works.";
        return Err(ApiError::new(Code::PartialRerunWindowExpired, detail));
    }
    let key = rows_of(earlier, now)?;
    let replay = Replay { run: earlier.id, selection: selection.clone() };
    let few = match latest.stats.total as usize <= limits::INLINE_TASKS_MAX {
        true => read_few(state, key, &replay).await?,
        false => None,
    };
    let (retried, inherited) = match &few {
        Some(tasks) => split(tasks),
        None => foresee(state, key, &latest.stats, &replay).await?,
    };
    if retried == 0 {
        return Err(ApiError::new(Code::NoMatchingTasks, "No task of the latest run is to be done again."));
    }
    let (tasks, log, new_tasks) = match few {
        Some(tasks) => {
            let written = NewTasks::Written {
                total: retried + inherited,
                next_index: earlier.next_index,
                inherited: inherited_counts(&tasks),
            };
            (tasks, None, written)
        }
        None => (Vec::new(), Some(IngestEvent::Replaying { replay }), NewTasks::Ingested),
    };
    let mut sources = Vec::new();
    if !selection.is_everything() {
        // Rows that are handed down may point to whatever this one points to.
        sources.push(earlier.id);
        sources.extend(earlier.sources.iter().copied().filter(|source| *source != earlier.id));
    }
    let run = NewRun {
        id: RunId::new(now, &state.entropy),
        after: earlier.id,
        trigger: Trigger::Manual,
        rerun_of: Some(earlier.id),
        overrides,
        sources,
        tasks: new_tasks,
    };
    let start = StartRun { job: job.id, run, tasks, log };
    Ok(Planned { start, retried, inherited, rerun_of: Some(earlier.id) })
}

fn split(tasks: &[ReplayedTask]) -> (u32, u32) {
    let inherited = tasks.iter().filter(|task| task.inherited.is_some()).count();
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    (count(tasks.len() - inherited), count(inherited))
}

fn page_of(key: RunKey) -> TasksQuery {
    TasksQuery {
        key,
        filter: StatusFilter::All,
        after: None,
        limit: limits::RESULTS_PAGE_MAX,
        max_bytes: limits::CHUNK_MAX_BYTES,
    }
}

/// All tasks of a run; `None` if they are too many, or too much, to be written on the request.
async fn read_few(state: &ApiState, key: RunKey, replay: &Replay) -> Result<Option<Vec<ReplayedTask>>> {
    let (mut query, mut found, mut bytes) = (page_of(key), Vec::new(), 0);
    loop {
        let page = state.store().tasks(query).await?;
        let Some(last) = page.last() else { return Ok(Some(found)) };
        query.after = Some(last.id);
        bytes += page.iter().map(|task| task.weight() as u64).sum::<u64>();
        found.extend(page.into_iter().map(|task| replay.replayed(task)));
        if found.len() > limits::INLINE_TASKS_MAX || bytes > limits::SYNC_LIST_EXPANDED_MAX_BYTES {
            return Ok(None);
        }
    }
}

/// How many tasks will be done again, and how many handed down: by what was counted, where that tells.
async fn foresee(state: &ApiState, key: RunKey, stats: &RunStats, replay: &Replay) -> Result<(u32, u32)> {
    let selection = &replay.selection;
    let total = stats.total;
    let retried = if selection.is_everything() {
        total
    } else if selection.is_by_status() && !unfinished_apart(selection) {
        let counted = |status: TaskStatus| match status {
            TaskStatus::Successful => stats.counts.successful,
            TaskStatus::Failed => stats.counts.failed_total(),
            TaskStatus::Pending => total.saturating_sub(stats.counts.completed()),
            TaskStatus::Processing => 0,
        };
        selection.status.iter().map(|status| counted(*status)).sum()
    } else {
        count_picked(state, key, selection).await?
    };
    Ok((retried, total.saturating_sub(retried)))
}

/// Whether it tells tasks that were begun from those that were not, which counters do not.
fn unfinished_apart(selection: &Selection) -> bool {
    let has = |status| selection.status.contains(&status);
    has(TaskStatus::Pending) != has(TaskStatus::Processing)
}

async fn count_picked(state: &ApiState, key: RunKey, selection: &Selection) -> Result<u32> {
    let (mut query, mut picked) = (page_of(key), 0);
    loop {
        let page = state.store().tasks(query).await?;
        let Some(last) = page.last() else { return Ok(picked) };
        query.after = Some(last.id);
        picked += page.iter().filter(|task| selection.picks(task)).count() as u32;
    }
}
