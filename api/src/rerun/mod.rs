//! Another run of a job, with the tasks of an earlier one (SPEC 6.19): what it is made of is planned, and one writer starts
//! it. It is written on the request if its tasks are few (201), otherwise ingested (202).

mod base;
mod survey;

use crate::idempotency::{Snapshot, Turn};
use crate::path::rows_of;
use crate::problem::{ApiError, Code, Result};
use crate::show::{self, is_there};
use crate::state::ApiState;
use axum::http::StatusCode;
use axum::response::Response;
use base::{Base, base_of};
use conveyor_domain::access::quota::Wanted;
use conveyor_domain::job::rerun::inherited_counts;
use conveyor_domain::job::retention::{can_be_proved, rows_are_over};
use conveyor_domain::job::run::Expected;
use conveyor_domain::schedule::TaskSource;
use conveyor_domain::{
    CallerId, IngestEvent, Job, JobId, JobSchedule, JobStatus, NewRun, NewTasks, Params, Replay,
    ReplayedTask, RunId, RunStatus, Selection, Trigger, limits,
};
use conveyor_store::admission::Became;
use conveyor_store::port::{JobView, Once, RunKey, RunView, StartRun};
use conveyor_store::template::expected_tasks;
use conveyor_wire::Rerun;
use std::time::Duration;
use survey::{Few, Outlook, Survey};

/// A rerun that can be begun.
pub(crate) struct Planned {
    run: NewRun,
    /// Its tasks, with the room that they take, if they are written with it.
    few: Option<Few>,
    /// The first event of its ingest, if they are not.
    log: Option<IngestEvent>,
    outlook: Outlook,
    /// Whether these counts are final. They are not if the list is read again and was never counted.
    is_counted: bool,
}

impl Planned {
    /// A rerun that reads every task again. An uncounted list has at least the tasks of the latest run.
    fn of_all(
        run: NewRun,
        log: IngestEvent,
        expected: Option<Expected>,
        latest: Option<&RunView>,
    ) -> Planned {
        let least = latest.map_or(0, |latest| latest.stats.total);
        let known = expected.unwrap_or(Expected { tasks: least, exact: false });
        let outlook = Outlook { retried: known.tasks, inherited: 0 };
        Planned { run, few: None, log: Some(log), outlook, is_counted: known.exact }
    }
}

/// Starts it, and answers once that is durable.
pub(crate) async fn start(
    state: &ApiState,
    caller: CallerId,
    turn: &mut Turn,
    job: JobId,
    Planned { run, few, log, outlook: Outlook { retried, inherited }, is_counted }: Planned,
) -> Result<Response> {
    let is_ingested = log.is_some();
    // An uncounted list reserves room for one task, as a submit does.
    let (tasks, done) =
        if is_ingested { (retried.max(1), Became::Reading) } else { (retried, Became::Known) };
    let wanted = Wanted { job, active: true, scheduled: false, tasks };
    let rerun_of = run.rerun_of;
    let answer = move |view: &JobView| {
        // The run that was begun is the latest.
        let body = view.latest.as_ref().map(|latest| Rerun {
            job_id: view.job.id,
            status: view.job.status.into(),
            latest_run: show::run(latest),
            rerun_of,
            retried_tasks: retried,
            inherited_tasks: inherited,
            total_is_final: is_counted,
        });
        match is_ingested {
            false => Snapshot::new(StatusCode::CREATED, &body),
            true => {
                let location = format!("/v1/jobs/{}/runs/{}", view.job.id, view.job.latest_run);
                Snapshot::new(StatusCode::ACCEPTED, &body).at(location)
            }
        }
    };
    let (tasks, _room) = few.map(|Few { tasks, room }| (tasks, room)).unzip();
    let start = move |once: Option<Once>| async move {
        let start = StartRun { job, run, tasks: tasks.unwrap_or_default(), log, once };
        Ok(state.store().start_run(start, state.now()).await?)
    };
    turn.carry_out(state, caller, (wanted, done), answer, start).await
}

pub(crate) async fn plan(
    state: &ApiState,
    JobView { job, latest }: &JobView,
    selection: &Selection,
    overrides: Params,
) -> Result<Planned> {
    if job.status == JobStatus::Deleted {
        return Err(ApiError::not_found());
    }
    if let Some(RunView { run, .. }) = latest {
        if run.goes_on() && run.is_ingesting() {
            let detail = "The list of the latest run is still being ingested.";
            return Err(ApiError::new(Code::RunNotTerminal, detail));
        }
        if !run.status.is_terminal() {
            let detail = format!("The latest run is {}.", run.status.as_str());
            return Err(ApiError::new(Code::RunNotTerminal, detail));
        }
    }
    let now = state.now();
    let kept = latest.as_ref().filter(|view| is_there(&view.run) && view.run.status != RunStatus::Deleted);
    if let Some(schedule) = &job.spec.schedule
        && kept.is_none_or(|view| rows_are_over(&view.run, now))
        && selection.is_everything()
    {
        return of_template(state, job, latest.as_ref(), schedule, overrides, None).await;
    }
    let Some(latest) = kept else {
        return Err(ApiError::new(Code::NoPriorRun, "There is no run to replay."));
    };
    let earlier = &latest.run;
    if !selection.is_everything() && earlier.created.after(limits::PARTIAL_RERUN_WINDOW) <= now {
        let detail = "The latest run began more than 10 days ago. A full rerun still works.";
        return Err(ApiError::new(Code::PartialRerunWindowExpired, detail));
    }
    rows_of(state, earlier).await?;
    let new_run = |rerun_of, sources, tasks| NewRun {
        id: RunId::new(now, &state.entropy),
        after: job.latest_run,
        trigger: Trigger::Manual,
        fire: None,
        rerun_of,
        overrides: overrides.clone(),
        sources,
        tasks,
    };
    let base = match base_of(state, job, latest, selection).await? {
        Base::Run(base) => base,
        Base::Template => {
            let schedule = job.spec.schedule.as_ref().ok_or_else(ApiError::not_found)?;
            return of_template(state, job, Some(latest), schedule, overrides, Some(earlier.id)).await;
        }
        Base::List(source, expected) => {
            let run = new_run(Some(earlier.id), Vec::new(), NewTasks::Ingested { expected });
            let first = IngestEvent::Accepted { source: *source };
            return Ok(Planned::of_all(run, first, expected, Some(latest)));
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
    let outlook = match &few {
        Some(few) => split(&few.tasks),
        None => {
            let one_by_one = state.backend.capabilities.removes_by_itself_within > Duration::ZERO;
            survey.outlook(stats, earlier.status, can_be_proved(job, earlier, one_by_one, now)).await?
        }
    };
    if outlook.retried == 0 {
        return Err(ApiError::new(Code::NoMatchingTasks, "No task of the latest run is to be done again."));
    }
    let total = outlook.retried + outlook.inherited;
    let (tasks, sources) = match &few {
        Some(Few { tasks, .. }) => {
            let (next_index, inherited) = (earlier.next_index, inherited_counts(tasks));
            (NewTasks::Written { total, next_index, inherited }, sources_of(tasks))
        }
        None => {
            let tasks = NewTasks::Ingested { expected: Some(Expected { tasks: total, exact: true }) };
            // The inherited rows are not known yet: they may point to any source of the earlier run.
            let others = earlier.sources.iter().copied().filter(|source| *source != earlier.id);
            let sources = std::iter::once(earlier.id).chain(others).filter(|_| !selection.is_everything());
            (tasks, sources.collect())
        }
    };
    let log = few.is_none().then_some(IngestEvent::Replaying { replay });
    Ok(Planned { run: new_run(Some(earlier.id), sources, tasks), few, log, outlook, is_counted: true })
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
    Ok(Planned::of_all(run, first, expected, latest))
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
