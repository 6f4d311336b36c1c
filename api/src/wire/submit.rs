//! A submit, checked whole before anything is stored (SPEC 6.1, 10).

use super::schedule::schedule;
use super::{job, read_field, read_rest};
use crate::problem::{ApiError, Code, Result};
use crate::split::Rest;
use crate::warnings::Warnings;
use conveyor_domain::{JobSpec, OnInvalidRows, ParamPolicy, Schedule, UploadId};
use conveyor_wire::{JobType, SubmitJob, SubmitStatus, TaskToken};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// A submit but for its tasks, which do not pass through here.
#[derive(Debug)]
pub(crate) struct SubmitRequest {
    pub open: bool,
    pub spec: JobSpec,
    pub list: Option<NamedList>,
    /// There if it is a scheduled job.
    pub schedule: Option<Schedule>,
    /// Of a state machine that waits; not yet sealed.
    pub task_token: Option<TaskToken>,
}

/// A list that was staged before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamedList {
    pub upload: UploadId,
    pub on_invalid_rows: OnInvalidRows,
}

/// Without its tasks; a schedule is read if there is a use for it.
type Body<'a> = SubmitJob<Vec<IgnoredAny>, &'a RawValue>;

impl SubmitRequest {
    /// `tasks` is how many there are in the body.
    pub fn parse(
        rest: &Rest,
        tasks: usize,
        policy: ParamPolicy,
        warnings: &Warnings,
    ) -> Result<SubmitRequest> {
        let mut body: Body<'_> = read_rest(rest, warnings)?;
        let open = body.status == Some(SubmitStatus::Open);
        let schedule = parse_schedule(&body, open, warnings)?;
        let list = parse_list(&body, open)?;
        if list.is_none() && tasks == 0 && !open {
            return Err(ApiError::invalid("`tasks` must have at least one task, unless the job is open."));
        }
        let task_token = body.sfn_task_token.take();
        Ok(SubmitRequest { open, spec: job::spec(body, policy)?, list, schedule, task_token })
    }
}

fn parse_list(body: &Body<'_>, open: bool) -> Result<Option<NamedList>> {
    let Some(id) = &body.file_input_id else {
        return match body.on_invalid_rows {
            Some(OnInvalidRows::Skip | OnInvalidRows::Fail) => {
                Err(ApiError::invalid("`on_invalid_rows` needs `file_input_id`."))
            }
            None => Ok(None),
        };
    };
    if body.tasks.is_some() {
        return Err(ApiError::invalid("`tasks` and `file_input_id` exclude each other."));
    }
    if open {
        let detail = "Only a closed job takes a `file_input_id`.";
        return Err(ApiError::new(Code::FileInputUnsupported, detail));
    }
    let upload = id.parse().map_err(|_| ApiError::upload_not_found())?;
    Ok(Some(NamedList { upload, on_invalid_rows: body.on_invalid_rows.unwrap_or_default() }))
}

/// The schedule of a scheduled job. Of another it is not looked at.
fn parse_schedule(body: &Body<'_>, open: bool, warnings: &Warnings) -> Result<Option<Schedule>> {
    match (body.kind.unwrap_or(JobType::Regular), body.schedule) {
        (JobType::Regular, _) => Ok(None),
        (JobType::Scheduled, _) if open => Err(ApiError::invalid("Only a regular job can be open.")),
        (JobType::Scheduled, None) => Err(ApiError::invalid("A scheduled job needs a `schedule`.")),
        (JobType::Scheduled, Some(raw)) => {
            schedule("schedule.", read_field("schedule", raw, warnings)?).map(Some)
        }
    }
}

#[cfg(test)]
#[path = "submit_tests.rs"]
mod tests;
