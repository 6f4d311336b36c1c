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
use crate::rerun_base::{Base, base_of};
use crate::shares::bodies::Room;
use crate::shares::in_flight;
use crate::show::{self, is_there};
use crate::state::{ApiState, Shared};
use crate::survey::{Few, Outlook, Survey};
use crate::warnings::Warnings;
use crate::wire::rerun::{PARAMETERS, parse_overrides, parse_selection};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use conveyor_domain::access::quota::Wanted;
use conveyor_domain::job::rerun::inherited_counts;
use conveyor_domain::job::retention::{can_be_proved, rows_are_over};
use conveyor_domain::job::run::Expected;
use conveyor_domain::schedule::TaskSource;
use conveyor_domain::{
    CallerId, IngestEvent, Job, JobId, JobSchedule, JobStatus, NewRun, NewTasks, Params, Replay,
    ReplayedTask, RunId, RunStatus, Selection, Trigger, limits,
};
use conveyor_store::port::{JobView, RunKey, RunView, StartRun};
use conveyor_store::template::expected_tasks;
use conveyor_wire::Rerun;
use std::time::Duration;

pub(super) async fn rerun(
    caller: Caller,
    State(state): State<Shared>,
    Path(Id(job)): Path<Id<JobId>>,
    query: Query,
    request: Request,
) -> Result<Response> {
    // Before anything about the rest: another caller's job must not show by how far a check gets.
    let view = job_of(&state, &caller, job).await?;
    let query = query.only(PARAMETERS)?;
    let (selection, warnings) = (parse_selection(&query)?, Warnings::of(&request, &query)?);
    let max = limits::SUBMIT_REST_MAX_BYTES.min(state.config.max_body_bytes);
    let mut intent = Intent::of(&request, caller.id)?;
    let in_flight = in_flight::of(request.extensions());
    let body = body::read_json_if_any(request, max, &state.bodies).await?;
    if let (Some(intent), Some(body)) = (&mut intent, &body) {
        intent.pass(&body.bytes);
    }
    let mut turn = match idempotency::begin(&state, intent, warnings).await? {
        Begun::Replay(answer) => return Ok(answer),
        Begun::Fresh(turn) => turn,
    };
    let planned = async {
        let mut overrides = match &body {
            Some(body) => {
                let (policy, job) = (state.config.param_policy, &view.job.spec.params);
                parse_overrides(&body.bytes, policy, job, turn.warnings())?
            }
            None => Params::new(),
        };
        state.headers().seal(&job, &mut overrides);
        plan(&state, &view, &selection, overrides).await
    };
    let planned = match planned.await {
        Ok(planned) => planned,
        Err(refused) => return turn.end(&state, Err(refused)).await,
    };
    let starting = async move {
        let started = start(&state, caller.id, &mut turn, planned).await;
        turn.end(&state, started).await
    };
    in_flight::to_the_end(in_flight, body, starting).await
}

async fn start(state: &ApiState, caller: CallerId, turn: &mut Turn, planned: Planned) -> Result<Response> {
    let Planned { mut start, room: _room, retried, inherited, rerun_of, is_counted } = planned;
    let accepted = start.log.is_some();
    let answer =
        move |view: &JobView| answer(view, accepted, rerun_of, Outlook { retried, inherited }, is_counted);
    start.once = turn.claim(state, answer).await?;
    // Of a list that nobody has read yet there is room for one at least, as for any other.
    let tasks = if accepted { retried.max(1) } else { retried };
    let wanted = Wanted { job: start.job, active: true, scheduled: false, tasks };
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
    outlook: Outlook,
    total_is_final: bool,
) -> Snapshot {
    // The run that was begun is the latest.
    let body = view.latest.as_ref().map(|latest| Rerun {
        job_id: view.job.id,
        status: view.job.status.into(),
        latest_run: show::run(latest),
        rerun_of,
        retried_tasks: outlook.retried,
        inherited_tasks: outlook.inherited,
        total_is_final,
    });
    match accepted {
        false => Snapshot::new(StatusCode::CREATED, &body),
        true => {
            let location = format!("/v1/jobs/{}/runs/{}", view.job.id, view.job.latest_run);
            Snapshot::new(StatusCode::ACCEPTED, &body).at(location)
        }
    }
}

/// A rerun that can be begun.
struct Planned {
    start: StartRun,
    /// What its tasks take, if it comes with them.
    room: Option<Room>,
    retried: u32,
    inherited: u32,
    rerun_of: Option<RunId>,
    /// Whether these are all that there will be: perhaps nobody has counted a list that is read anew.
    is_counted: bool,
}

impl Planned {
    /// Every task is read anew. Where nobody has counted them, there are at least those of the latest run.
    fn of_all(start: StartRun, expected: Option<Expected>, latest: Option<&RunView>) -> Planned {
        let least = latest.map_or(0, |latest| latest.stats.total);
        let known = expected.unwrap_or(Expected { tasks: least, exact: false });
        let rerun_of = start.run.rerun_of;
        Planned { start, room: None, retried: known.tasks, inherited: 0, rerun_of, is_counted: known.exact }
    }
}

async fn plan(
    state: &ApiState,
    JobView { job, latest }: &JobView,
    selection: &Selection,
    overrides: Params,
) -> Result<Planned> {
    if job.status == JobStatus::Deleted {
        return Err(ApiError::not_found());
    }
    if let Some(earlier) = latest.as_ref().map(|latest| &latest.run) {
        if earlier.goes_on() && earlier.is_ingesting() {
            let detail = "The list of the latest run is still being ingested.";
            return Err(ApiError::new(Code::RunNotTerminal, detail));
        }
        if !earlier.status.is_terminal() {
            let detail = format!("The latest run is {}.", earlier.status.as_str());
            return Err(ApiError::new(Code::RunNotTerminal, detail));
        }
    }
    let now = state.now();
    let there = latest.as_ref().filter(|view| is_there(&view.run) && view.run.status != RunStatus::Deleted);
    if let Some(schedule) = &job.spec.schedule
        && there.is_none_or(|view| rows_are_over(&view.run, now))
        && selection.is_everything()
    {
        return of_template(state, job, latest.as_ref(), schedule, overrides, None).await;
    }
    let Some(latest) = there else {
        return Err(ApiError::new(Code::NoPriorRun, "There is no run to replay."));
    };
    let earlier = &latest.run;
    if !selection.is_everything() && earlier.created.after(limits::PARTIAL_RERUN_WINDOW) <= now {
        let detail = "The latest run began more than 10 days ago. A full rerun still works.";
        return Err(ApiError::new(Code::PartialRerunWindowExpired, detail));
    }
    rows_of(state, earlier).await?;
    let base = match base_of(state, job, latest, selection).await? {
        Base::Run(base) => base,
        Base::Template => {
            let schedule = job.spec.schedule.as_ref().ok_or_else(ApiError::not_found)?;
            return of_template(state, job, Some(latest), schedule, overrides, Some(earlier.id)).await;
        }
        Base::List(source, expected) => {
            let run = NewRun {
                id: RunId::new(now, &state.entropy),
                after: job.latest_run,
                trigger: Trigger::Manual,
                fire: None,
                rerun_of: Some(earlier.id),
                overrides,
                sources: Vec::new(),
                tasks: NewTasks::Ingested { expected },
            };
            let log = Some(IngestEvent::Accepted { source: *source });
            let start = StartRun { job: job.id, run, tasks: Vec::new(), log, once: None };
            return Ok(Planned::of_all(start, expected, Some(latest)));
        }
    };
    let (earlier, stats) = (&base.run, &base.stats);
    let key = RunKey { job: job.id, run: earlier.id };
    let replay = Replay { run: earlier.id, selection: selection.clone() };
    let survey = Survey {
        state,
        caller: job.caller,
        key,
        replay: &replay,
        params: &job.spec.params,
        overrides: &overrides,
    };
    let few = survey.few(stats.total).await?;
    let Outlook { retried, inherited } = match &few {
        Some(few) => split(&few.tasks),
        None => {
            let one_by_one = state.store().removes_by_itself_within() > Duration::ZERO;
            survey.outlook(stats, earlier.status, can_be_proved(job, earlier, one_by_one, now)).await?
        }
    };
    if retried == 0 {
        return Err(ApiError::new(Code::NoMatchingTasks, "No task of the latest run is to be done again."));
    }
    let (tasks, room, log, new_tasks) = match few {
        Some(Few { tasks, room }) => {
            let written = NewTasks::Written {
                total: retried + inherited,
                next_index: earlier.next_index,
                inherited: inherited_counts(&tasks),
            };
            (tasks, Some(room), None, written)
        }
        None => {
            let expected = Some(Expected { tasks: retried + inherited, exact: true });
            let first = IngestEvent::Replaying { replay };
            (Vec::new(), None, Some(first), NewTasks::Ingested { expected })
        }
    };
    let sources = match log {
        None => sources_of(&tasks),
        // Nobody has read which rows are handed down: they may point to whatever this one points to.
        Some(_) if !selection.is_everything() => {
            let others = earlier.sources.iter().copied().filter(|source| *source != earlier.id);
            std::iter::once(earlier.id).chain(others).collect()
        }
        Some(_) => Vec::new(),
    };
    let rerun_of = Some(earlier.id);
    let run = NewRun {
        id: RunId::new(now, &state.entropy),
        after: job.latest_run,
        trigger: Trigger::Manual,
        fire: None,
        rerun_of,
        overrides,
        sources,
        tasks: new_tasks,
    };
    let start = StartRun { job: job.id, run, tasks, log, once: None };
    Ok(Planned { start, room, retried, inherited, rerun_of, is_counted: true })
}

/// A run of what all runs of the schedule are made of: that is always there.
async fn of_template(
    state: &ApiState,
    job: &Job,
    latest: Option<&RunView>,
    schedule: &JobSchedule,
    overrides: Params,
    rerun_of: Option<RunId>,
) -> Result<Planned> {
    if let TaskSource::Rows(run) = schedule.task_source() {
        let (key, replay) = (RunKey { job: job.id, run }, Replay { run, selection: Selection::default() });
        let params = &job.spec.params;
        Survey { state, caller: job.caller, key, replay: &replay, params, overrides: &overrides }
            .sense()
            .await?;
    }
    // What its runs are made of is always there.
    let expected = expected_tasks(state.store(), job).await?;
    let id = RunId::new(state.now(), &state.entropy);
    let (run, first) = schedule.run_of_template(id, job.latest_run, expected);
    let run = NewRun { overrides, rerun_of, ..run };
    let start = StartRun { job: job.id, run, tasks: Vec::new(), log: Some(first), once: None };
    Ok(Planned::of_all(start, expected, latest))
}

/// The runs that these tasks have results in.
fn sources_of(tasks: &[ReplayedTask]) -> Vec<RunId> {
    let from = tasks.iter().filter_map(|task| task.inherited.as_ref()).map(|inherited| inherited.from.run);
    let mut sources: Vec<RunId> = from.collect();
    sources.sort_unstable();
    sources.dedup();
    sources
}

fn split(tasks: &[ReplayedTask]) -> Outlook {
    let inherited = tasks.iter().filter(|task| task.inherited.is_some()).count();
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Outlook { retried: count(tasks.len() - inherited), inherited: count(inherited) }
}
