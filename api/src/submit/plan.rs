//! What a submit makes, decided and checked whole before anything is stored.

use super::intake::{StagedTasks, Tasks};
use super::short_list::{ShortList, read_short};
use crate::auth::Caller;
use crate::counting;
use crate::direct;
use crate::invalid_tasks::InvalidTasks;
use crate::path::upload_of;
use crate::problem::{ApiError, Code, Result};
use crate::shares::Room;
use crate::shares::bodies::room_within;
use crate::split::Rest;
use crate::staged;
use crate::state::ApiState;
use crate::warnings::Warnings;
use crate::webhooks;
use crate::wire::submit::{NamedList, SubmitRequest};
use crate::wire::tasks::{self, CHECKED_AT_ONCE};
use conveyor_domain::ingest::Source;
use conveyor_domain::job::run::Expected;
use conveyor_domain::{
    JobSchedule, JobSpec, ListCount, OnInvalidRows, Params, Purpose, Refusal, RowCount, RunId, Schedule,
    Sealed, Staged, TaskInput, TaskRules, Timestamp, Upload, limits,
};
use conveyor_lists::Record;
use conveyor_wire::{TaskToken, Text};
use std::mem::take;

/// What a body says but for its tasks: checked, and what is secret of it sealed.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub spec: JobSpec,
    pub open: bool,
    pub list: Option<NamedList>,
}

/// A job to be made, and where its tasks come from.
#[derive(Debug)]
pub(super) struct Planned {
    pub spec: JobSpec,
    pub open: bool,
    pub plan: Plan,
}

#[derive(Debug)]
pub(super) enum Plan {
    /// Few tasks of the body, written with the job.
    Inline(Vec<TaskInput>),
    /// A list that is short enough to be read on the request: its tasks are written with the job, and the log of its ingest
    /// with them.
    Staged(Source, Box<ShortList>, Room),
    /// A list that is ingested later.
    Accept(Source, Option<Expected>),
    /// The list of a scheduled job: every run reads it.
    Template(Source, Option<Expected>),
}

pub(crate) async fn parse(
    state: &ApiState,
    caller: &Caller,
    rest: &Rest,
    tasks: &Tasks,
    warnings: &Warnings,
) -> Result<Request> {
    let mut request = SubmitRequest::parse(rest, tasks.count(), state.config.param_policy, warnings)?;
    if let Some(hook) = &request.spec.webhook {
        webhooks::check(state, caller.id, hook, "webhook.url").await?;
    }
    if let Some(TaskToken(Text(token))) = request.task_token.take() {
        let sealed = sealed_token(state, caller, &token, request.schedule.is_some())?;
        request.spec.sfn_task_token = Some(sealed);
    }
    let spec = scheduled(request.spec, request.schedule, state.now())?;
    Ok(Request { spec, open: request.open, list: request.list })
}

fn sealed_token(state: &ApiState, caller: &Caller, token: &str, is_scheduled: bool) -> Result<Sealed> {
    if !state.webhooks.reaches_state_machines() {
        let detail = "`sfn_task_token`: this deployment does not answer state machines.";
        return Err(ApiError::invalid(detail));
    }
    if is_scheduled {
        // Nobody knows whether it ever fires: the machine could hang.
        let detail = "`sfn_task_token`: a scheduled job has no run yet that could answer it.";
        return Err(ApiError::invalid(detail));
    }
    let context = caller.id.to_string();
    Ok(state.secret.seal(Purpose::TaskToken, &context, token.as_bytes(), &state.entropy))
}

/// What is submitted, with its schedule, if it can be stored. The run that keeps its tasks is named once there is one.
fn scheduled(mut spec: JobSpec, schedule: Option<Schedule>, now: Timestamp) -> Result<JobSpec> {
    if let Some(schedule) = schedule {
        check_fires(&schedule, now)?;
        spec.schedule = Some(JobSchedule::new(schedule, RunId::from_bytes([0; 16]), None, now));
    }
    match spec.stored_bytes() > limits::JOB_DOCUMENT_MAX_BYTES {
        true => Err(Refusal::JobTooLarge.into()),
        false => Ok(spec),
    }
}

/// Only a time that has passed has nothing to come.
pub(crate) fn check_fires(schedule: &Schedule, now: Timestamp) -> Result<()> {
    let passed = || ApiError::invalid("The schedule never fires: its time has passed.");
    schedule.next_after(now, now).map(drop).ok_or_else(passed)
}

pub(super) async fn plan(
    state: &ApiState,
    caller: &Caller,
    Request { spec, open, list }: Request,
    tasks: &mut Tasks,
    warnings: &Warnings,
) -> Result<Planned> {
    let plan = match (tasks, list) {
        (_, Some(list)) => of_upload(state, caller, &spec, list, warnings).await?,
        (Tasks::Staged(tasks), None) => of_staged(state, &spec, tasks, warnings).await?,
        (Tasks::Inline(lines), None) => {
            // Not needed any more once the tasks are parsed.
            let (lines, policy) = (take(lines), state.config.param_policy);
            Plan::Inline(tasks::check(lines.iter(), &spec.params, policy, warnings).await?)
        }
    };
    Ok(Planned { spec, open, plan })
}

impl Plan {
    fn of_list(spec: &JobSpec, source: Source, expected: Option<Expected>) -> Plan {
        match spec.schedule {
            None => Plan::Accept(source, expected),
            Some(_) => Plan::Template(source, expected),
        }
    }
}

async fn of_upload(
    state: &ApiState,
    caller: &Caller,
    spec: &JobSpec,
    list: NamedList,
    warnings: &Warnings,
) -> Result<Plan> {
    let policy = state.config.param_policy;
    let mut upload = upload_of(state, caller.id, list.upload).await?;
    if let Some(direct) = state.direct() {
        upload = direct::stage(state, direct, upload).await?;
    }
    let mut source = source_of(upload, list.on_invalid_rows, warnings.task_rules(policy))?;
    let is_long = |rows: &RowCount| rows.records as usize > state.config.inline_tasks_max;
    if source.staged.size <= limits::SYNC_LIST_MAX_BYTES && !source.counted().is_some_and(is_long) {
        let room = room_within(limits::SYNC_LIST_EXPANDED_MAX_BYTES, caller.id, &state.bodies).await?;
        if let Some(short) = read_short(state, &source, &spec.params).await? {
            warnings.unknown_in_rows(&short.unknown)?;
            short.check(source.on_invalid_rows, state.config.run_tasks_max)?;
            if spec.schedule.is_none() {
                return Ok(Plan::Staged(source, Box::new(short), room));
            }
            source.staged.count = Some(Box::new(short.count(policy)?));
            let expected = source.expected(&spec.params);
            return Ok(Plan::of_list(spec, source, expected));
        }
    }
    let expected = counting::briefly(state, caller.id, &mut source, &spec.params).await?;
    Ok(Plan::of_list(spec, source, expected))
}

/// Pins what is staged now.
pub(crate) fn source_of(upload: Upload, on_invalid_rows: OnInvalidRows, rules: TaskRules) -> Result<Source> {
    let Upload { id, spec, multipart, staged, .. } = upload;
    let refuse = || match multipart {
        true => ApiError::new(Code::FileInputIncomplete, "The parts of the file input are not joined."),
        false => ApiError::new(Code::FileInputNotUploaded, "Nothing was uploaded to the file input."),
    };
    let (param_policy, unknown_fields) = (Some(rules.params), rules.unknown_fields);
    let staged = staged.ok_or_else(refuse)?;
    Ok(Source { upload: id, staged, spec, on_invalid_rows, param_policy, unknown_fields })
}

/// Tasks of a body that had too many: all are checked, then accepted.
async fn of_staged(
    state: &ApiState,
    spec: &JobSpec,
    tasks: &StagedTasks,
    warnings: &Warnings,
) -> Result<Plan> {
    check_staged(state, tasks, &spec.params, warnings).await?;
    let rules = warnings.task_rules(state.config.param_policy);
    let counted = ListCount::Rows(RowCount::checked(rules.params, tasks.count, tasks.count));
    let source = Source {
        upload: tasks.upload.id,
        staged: Staged { count: Some(Box::new(counted)), ..tasks.staged.clone() },
        spec: StagedTasks::SPEC,
        on_invalid_rows: OnInvalidRows::default(),
        param_policy: Some(rules.params),
        unknown_fields: rules.unknown_fields,
    };
    let expected = source.expected(&spec.params);
    Ok(Plan::of_list(spec, source, expected))
}

async fn check_staged(
    state: &ApiState,
    tasks: &StagedTasks,
    job: &Params,
    warnings: &Warnings,
) -> Result<()> {
    // All of a long list is read, in a thread at first.
    let _turn = state.checks.turn(tasks.upload.caller).await;
    // What was measured as it arrived needs no measuring now.
    let (_, mut reader) = staged::open(state, &tasks.staged, &StagedTasks::SPEC, u64::MAX)
        .await
        .map_err(staged::list_failed)?;
    let (mut invalid, headers) = (InvalidTasks::default(), state.headers());
    let rules = warnings.task_rules(state.config.param_policy);
    while let Some(Record { index, row, .. }) = reader.next().await.map_err(staged::list_failed)? {
        if (index as usize).is_multiple_of(CHECKED_AT_ONCE) {
            tokio::task::yield_now().await;
        }
        let row = row.map(|row| row.opened(&headers, &tasks.upload.id));
        if let Ok(row) = &row {
            tasks::warn(index as usize, row.unknown_fields().iter().map(String::as_str), warnings);
        }
        if let Err(why) = row.and_then(|row| row.check(job, rules)) {
            invalid.add(index as usize, None, why);
        }
    }
    match invalid.is_empty() {
        true => Ok(()),
        false => Err(ApiError::invalid_tasks(tasks.count as usize, &invalid)),
    }
}
