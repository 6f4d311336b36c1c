//! A submit that is only thought through (SPEC 6.23): everything is read and checked as it would be, and nothing is made.

mod pace;
mod tally;

use crate::auth::Caller;
use crate::counting;
use crate::direct;
use crate::path::upload_of;
use crate::problem::{ApiError, Code, Result};
use crate::shares::bodies::room_within;
use crate::split::{Lines, Rest};
use crate::staged;
use crate::state::ApiState;
use crate::submit::{self, Request, StagedTasks, Tasks, source_of};
use crate::warnings::Warnings;
use crate::wire::submit::NamedList;
use crate::wire::tasks::{self, CHECKED_AT_ONCE, check_one};
use axum::http::StatusCode;
use conveyor_domain::ingest::list::Position;
use conveyor_domain::{
    CallerId, JobSpec, ListFault, ListSpec, OnInvalidRows, Params, Staged, UploadId, limits,
};
use conveyor_lists::Record;
use conveyor_wire::DryRun;
pub(crate) use pace::Pace;
use tally::Tally;

/// What this submit would come to. What was staged of it is for whoever called to remove.
pub(crate) async fn dry_run(
    state: &ApiState,
    caller: &Caller,
    rest: &Rest,
    tasks: &Tasks,
    warnings: &Warnings,
) -> Result<DryRun> {
    let Request { spec, list, .. } = submit::parse(state, caller, rest, tasks, warnings).await?;
    let (caller, spec) = (caller.id, &spec);
    let work = async {
        let pace = Pace::lately(state, caller).await;
        match (tasks, list) {
            (_, Some(list)) => of_upload(state, caller, spec, list, pace, warnings).await,
            (Tasks::Inline(lines), None) => of_lines(state, spec, lines, pace, warnings).await,
            (Tasks::Staged(tasks), None) => of_tasks(state, caller, spec, tasks, pace, warnings).await,
        }
    };
    let late = || {
        let seconds = limits::DRY_RUN_WITHIN.as_secs();
        let detail = format!("The dry run took longer than {seconds} seconds and was given up.");
        ApiError::new(Code::Unavailable, detail)
    };
    tokio::time::timeout(limits::DRY_RUN_WITHIN, work).await.map_err(|_| late())?
}

/// Few tasks, in the body.
async fn of_lines(
    state: &ApiState,
    spec: &JobSpec,
    lines: &Lines,
    pace: Pace,
    warnings: &Warnings,
) -> Result<DryRun> {
    let mut tally = Tally::default();
    for (index, json) in lines.iter().enumerate() {
        if index % CHECKED_AT_ONCE == CHECKED_AT_ONCE - 1 {
            tokio::task::yield_now().await;
        }
        tally.add(index, None, check_one(index, json, &spec.params, state.config.param_policy, warnings));
    }
    let refused = !tally.invalid.is_empty();
    Ok(tally.report(spec, pace, answer(refused, StatusCode::CREATED)))
}

/// Many tasks, that were staged as they arrived.
async fn of_tasks(
    state: &ApiState,
    caller: CallerId,
    spec: &JobSpec,
    tasks: &StagedTasks,
    pace: Pace,
    warnings: &Warnings,
) -> Result<DryRun> {
    let list = Staging { staged: &tasks.staged, spec: &StagedTasks::SPEC, ours: Some(tasks.upload.id) };
    let (tally, _) = read(state, caller, list, &spec.params, warnings).await?;
    let refused = !tally.invalid.is_empty();
    Ok(tally.report(spec, pace, answer(refused, once_accepted(spec))))
}

/// A list that was staged before.
async fn of_upload(
    state: &ApiState,
    caller: CallerId,
    spec: &JobSpec,
    list: NamedList,
    pace: Pace,
    warnings: &Warnings,
) -> Result<DryRun> {
    let upload = upload_of(state, caller, list.upload).await?;
    let upload = match state.direct() {
        Some(direct) => direct::looked_at(state, direct, upload).await?,
        None => upload,
    };
    let mut source = source_of(upload, list.on_invalid_rows, warnings.task_rules(state.config.param_policy))?;
    let staging = Staging { staged: &source.staged, spec: &source.spec, ours: None };
    let (tally, end) = read(state, caller, staging, &spec.params, warnings).await?;
    warnings.unknown_in_rows(&tally.unknown)?;
    let short = source.staged.size <= limits::SYNC_LIST_MAX_BYTES
        && end.offset <= limits::SYNC_LIST_EXPANDED_MAX_BYTES
        && end.index as usize <= state.config.inline_tasks_max;
    if short {
        let fails = list.on_invalid_rows == OnInvalidRows::Fail && !tally.invalid.is_empty();
        let refused = fails || tally.valid == 0;
        return Ok(tally.report(spec, pace, answer(refused, StatusCode::CREATED)));
    }
    // Of a long list the submit knows what it can count in its time. One that it does not know to be bad fails its run.
    let would_answer = match counting::briefly(state, caller, &mut source, &spec.params).await {
        Ok(_) => once_accepted(spec).as_u16(),
        Err(refused) if refused.is_refusal() => answer(true, once_accepted(spec)),
        Err(error) => return Err(error),
    };
    Ok(tally.report(spec, pace, would_answer))
}

fn answer(refused: bool, otherwise: StatusCode) -> u16 {
    if refused { StatusCode::BAD_REQUEST.as_u16() } else { otherwise.as_u16() }
}

/// What answers a list that is left for ingest to read. A scheduled job is made at once: its runs read the list.
fn once_accepted(spec: &JobSpec) -> StatusCode {
    if spec.schedule.is_some() { StatusCode::CREATED } else { StatusCode::ACCEPTED }
}

struct Staging<'a> {
    staged: &'a Staged,
    spec: &'a ListSpec,
    /// We staged it, of a body, as this: it was measured as it arrived, its headers are sealed, and its lines mean nothing
    /// to the caller.
    ours: Option<UploadId>,
}

/// Reads a list to its end.
async fn read(
    state: &ApiState,
    caller: CallerId,
    list: Staging<'_>,
    job: &Params,
    warnings: &Warnings,
) -> Result<(Tally, Position)> {
    let _room = room_within(limits::DRY_RUN_ROOM_BYTES, caller, &state.bodies).await?;
    let expanded_max = if list.ours.is_some() { u64::MAX } else { state.config.list_expanded_max_bytes };
    let opened = staged::open(state, list.staged, list.spec, expanded_max).await;
    let (_, mut reader) = opened.map_err(staged::list_failed)?;
    let (mut tally, headers) = (Tally::default(), state.headers());
    let rules = warnings.task_rules(state.config.param_policy);
    while let Some(Record { index, line, row, .. }) = reader.next().await.map_err(staged::list_failed)? {
        if (index as usize).is_multiple_of(CHECKED_AT_ONCE) {
            tokio::task::yield_now().await;
        }
        let row = row.map(|row| match &list.ours {
            Some(upload) => row.opened(&headers, upload),
            None => row,
        });
        if let Ok(row) = &row
            && !rules.unknown_fields.are_refused()
        {
            let unknown = row.unknown_fields();
            match list.ours {
                Some(_) => tasks::warn(index as usize, unknown.iter().map(String::as_str), warnings),
                None => unknown.iter().for_each(|field| tally.unknown.add(field)),
            }
        }
        if index >= state.config.run_tasks_max {
            let detail = format!("more than {} records.", state.config.run_tasks_max);
            return Err(ApiError::list(ListFault::TooManyRows, Some(line), &detail));
        }
        let row = row.and_then(|row| row.check(job, rules));
        tally.add(index as usize, list.ours.is_none().then_some(line), row);
    }
    Ok((tally, reader.position()))
}
