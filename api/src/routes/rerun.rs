//! Another run of a job, with the tasks of an earlier one (SPEC 6.19): written on the request if they are few (201), otherwise
//! ingested (202).

use super::{job_of, rows_of};
use crate::admission;
use crate::auth::Caller;
use crate::body;
use crate::idempotency::{self, Begun, Intent, Snapshot, Turn};
use crate::path::{Id, Path};
use crate::problem::{ApiError, Code, Result};
use crate::query::Query;
use crate::state::{ApiState, Shared};
use crate::wire::rerun::{PARAMETERS, RerunJson, parse_overrides, parse_selection};
use crate::wire::run::{RunJson, is_there};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use conveyor_domain::ingest::IngestEvent;
use conveyor_domain::lifecycle::{NewRun, NewTasks};
use conveyor_domain::params::Params;
use conveyor_domain::quota::Wanted;
use conveyor_domain::rerun::{Replay, ReplayedTask, Selection, inherited_counts};
use conveyor_domain::retention::rows_are_over;
use conveyor_domain::run::{RunStatus, Trigger};
use conveyor_domain::{CallerId, JobId, RunId, RunStats, TaskStatus, limits};
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
    let mut intent = Intent::of(&request, caller.id)?;
    let body = body::read_json_if_any(request, max, &state.bodies).await?;
    if let (Some(intent), Some(body)) = (&mut intent, &body) {
        intent.pass(&body.bytes);
    }
    let mut turn = match idempotency::begin(&state, intent).await? {
        Begun::Replay(answer) => return Ok(answer),
        Begun::Fresh(turn) => turn,
    };
    let started = async {
        let mut overrides = match body {
            Some(body) => parse_overrides(&body.bytes, state.config.param_policy, &view.job.spec.params)?,
            None => Params::new(),
        };
        state.headers().seal(&job, &mut overrides);
        let planned = plan(&state, &view, &selection, overrides).await?;
        start(&state, caller.id, &mut turn, planned).await
    };
    let started = started.await;
    turn.end(&state, started).await
}

async fn start(state: &ApiState, caller: CallerId, turn: &mut Turn, planned: Planned) -> Result<Response> {
    let Planned { mut start, retried, inherited, rerun_of } = planned;
    let accepted = start.log.is_some();
    let answer = move |view: &JobView| answer(view, accepted, rerun_of, retried, inherited);
    start.once = turn.claim(state, answer).await?;
    let wanted = Wanted { job: start.job, active: true, scheduled: false, tasks: retried };
    let start = async { Ok(state.store().start_run(start, state.now()).await?) };
    let view = match accepted {
        true => admission::while_read(state, caller, wanted, start).await?,
        false => admission::within(state, caller, wanted, start).await?,
    };
    Ok(answer(&view).into_response())
}

fn answer(
    view: &JobView,
    accepted: bool,
    rerun_of: Option<RunId>,
    retried_tasks: u32,
    inherited_tasks: u32,
) -> Snapshot {
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
        false => Snapshot::new(StatusCode::CREATED, &body),
        true => {
            let location = format!("/v1/jobs/{}/runs/{}", run.job, run.id);
            Snapshot::new(StatusCode::ACCEPTED, &body).at(location)
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
    if earlier.goes_on() && earlier.is_ingesting() {
        let detail = "The list of the latest run is still being ingested.";
        return Err(ApiError::new(Code::RunNotTerminal, detail));
    }
    if !earlier.status.is_terminal() {
        let detail = format!("The latest run is {}.", earlier.status.as_str());
        return Err(ApiError::new(Code::RunNotTerminal, detail));
    }
    let now = state.now();
    let is_gone = !is_there(earlier) || earlier.status == RunStatus::Deleted;
    if let Some(schedule) = &job.spec.schedule
        && (is_gone || rows_are_over(earlier, now))
        && selection.is_everything()
    {
        // What its runs are made of is always there.
        let (run, first) = schedule.run_of_template(RunId::new(now, &state.entropy), earlier.id);
        let run = NewRun { overrides, ..run };
        let start = StartRun { job: job.id, run, tasks: Vec::new(), log: Some(first), once: None };
        let retried = if earlier.is_template() { earlier.total } else { latest.stats.total };
        return Ok(Planned { start, retried, inherited: 0, rerun_of: None });
    }
    if is_gone {
        return Err(ApiError::new(Code::NoPriorRun, "There is no run to replay."));
    }
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
        fire: None,
        rerun_of: Some(earlier.id),
        overrides,
        sources,
        tasks: new_tasks,
    };
    let start = StartRun { job: job.id, run, tasks, log, once: None };
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
