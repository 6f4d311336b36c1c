//! A submit, checked whole before anything is stored (SPEC 6.1, 10).

use super::limits::{
    parse_domain_limits, parse_max_failure_ratio, parse_max_inflight, parse_rate_limit,
    parse_result_ttl_days, parse_retry,
};
use super::schedule;
use super::webhook::{self, TaskToken, parse_task_token};
use crate::fields::Fields;
use crate::problem::{ApiError, Code, Result};
use crate::split::Rest;
use crate::warnings::Warnings;
use conveyor_domain::job::task_input::{Invalid, parse_external_id, parse_metadata};
use conveyor_domain::{
    Format, JobSpec, OnInvalidRows, ParamPolicy, Params, Schedule, UploadId, limits, params,
};
use serde_json::Value;

pub(crate) const FIELDS: &[&str] = &[
    "type",
    "status",
    "tasks",
    "zenrows_params",
    "external_id",
    "name",
    "metadata",
    "max_inflight",
    "rate_limit",
    "retry",
    "domain_limits",
    "max_failure_ratio",
    "result_ttl_days",
    "webhook",
    "sfn_task_token",
    "schedule",
    "file_input_id",
    "on_invalid_rows",
];

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

impl SubmitRequest {
    /// `tasks` is how many there are in the body.
    pub fn parse(
        rest: &Rest,
        tasks: usize,
        policy: ParamPolicy,
        warnings: &Warnings,
    ) -> Result<SubmitRequest> {
        let fields = Fields::parse_rest(rest, FIELDS, warnings)?;
        let open = parse_status(&fields)?;
        let schedule = parse_type(&fields, open)?;
        let spec = parse_spec(&fields, policy)?;
        fields.list("tasks", 0)?;
        let list = parse_list(&fields, open)?;
        if list.is_none() && tasks == 0 && !open {
            return Err(ApiError::invalid("`tasks` must have at least one task, unless the job is open."));
        }
        let task_token = parse_task_token(&fields)?;
        Ok(SubmitRequest { open, spec, list, schedule, task_token })
    }
}

fn parse_list(fields: &Fields<'_>, open: bool) -> Result<Option<NamedList>> {
    let on_invalid_rows = fields.get("on_invalid_rows", "\"skip\" or \"fail\"")?;
    let Some(id) = fields.get::<String>("file_input_id", "a string")? else {
        return match on_invalid_rows {
            Some(OnInvalidRows::Skip | OnInvalidRows::Fail) => {
                Err(ApiError::invalid("`on_invalid_rows` needs `file_input_id`."))
            }
            None => Ok(None),
        };
    };
    if fields.has("tasks") {
        return Err(ApiError::invalid("`tasks` and `file_input_id` exclude each other."));
    }
    if open {
        let detail = "Only a closed job takes a `file_input_id`.";
        return Err(ApiError::new(Code::FileInputUnsupported, detail));
    }
    let upload = id.parse().map_err(|_| ApiError::upload_not_found())?;
    Ok(Some(NamedList { upload, on_invalid_rows: on_invalid_rows.unwrap_or_default() }))
}

/// The schedule of a scheduled job. Of another it is not looked at.
fn parse_type(fields: &Fields<'_>, open: bool) -> Result<Option<Schedule>> {
    const EXPECTED: &str = "\"regular\" or \"scheduled\"";
    match fields.get::<String>("type", EXPECTED)?.as_deref() {
        None | Some("regular") => Ok(None),
        Some("scheduled") if open => Err(ApiError::invalid("Only a regular job can be open.")),
        Some("scheduled") => match fields.nested("schedule", schedule::FIELDS)? {
            Some(fields) => schedule::parse(&fields).map(Some),
            None => Err(ApiError::invalid("A scheduled job needs a `schedule`.")),
        },
        Some(_) => Err(ApiError::invalid(format!("`type` must be {EXPECTED}."))),
    }
}

/// Whether the job is open.
fn parse_status(fields: &Fields<'_>) -> Result<bool> {
    const EXPECTED: &str = "\"open\" or \"closed\"";
    match fields.get::<String>("status", EXPECTED)?.as_deref() {
        Some("open") => Ok(true),
        None | Some("closed") => Ok(false),
        Some(_) => Err(ApiError::invalid(format!("`status` must be {EXPECTED}."))),
    }
}

fn parse_spec(fields: &Fields<'_>, policy: ParamPolicy) -> Result<JobSpec> {
    let params = parse_params(fields, policy)?;
    Ok(JobSpec {
        format: Format::of(&params),
        params,
        external_id: parse_with(fields, "external_id", "a string", parse_external_id)?,
        name: parse_name(fields)?,
        metadata: parse_with(fields, "metadata", "an object of strings", parse_metadata)?.unwrap_or_default(),
        max_inflight: parse_max_inflight(fields)?.unwrap_or(limits::MAX_INFLIGHT_DEFAULT),
        rate: parse_rate_limit(fields)?,
        retry: parse_retry(fields)?,
        domain_limits: parse_domain_limits(fields)?,
        max_failure_ratio: parse_max_failure_ratio(fields)?,
        result_ttl_days: parse_result_ttl_days(fields)?,
        webhook: match fields.nested("webhook", webhook::FIELDS)? {
            Some(fields) => Some(webhook::parse_webhook(&fields, false)?),
            None => None,
        },
        ..JobSpec::default()
    })
}

fn parse_params(fields: &Fields<'_>, policy: ParamPolicy) -> Result<Params> {
    let Some(value) = fields.get::<Value>("zenrows_params", "an object")? else { return Ok(Params::new()) };
    let params = params::parse(&value, policy).map_err(|invalid| ApiError::job_params(&invalid))?;
    // What contradicts itself here would make every task invalid: one complaint instead of thousands.
    params::check_merged(&params, false).map_err(|invalid| ApiError::job_params(&invalid))?;
    Ok(params)
}

fn parse_with<T>(
    fields: &Fields<'_>,
    name: &str,
    expected: &str,
    parse: fn(&Value) -> std::result::Result<T, Invalid>,
) -> Result<Option<T>> {
    let Some(value) = fields.get::<Value>(name, expected)? else { return Ok(None) };
    let describe = |e: Invalid| ApiError::invalid(format!("`{name}`: {}: {}", e.reason.as_str(), e.value));
    parse(&value).map(Some).map_err(describe)
}

fn parse_name(fields: &Fields<'_>) -> Result<Option<String>> {
    let name: Option<String> = fields.get("name", "a string")?;
    match name {
        Some(name) if name.chars().count() > limits::NAME_MAX_CHARS => {
            Err(ApiError::invalid(format!("`name` has more than {} characters.", limits::NAME_MAX_CHARS)))
        }
        fits => Ok(fits),
    }
}

#[cfg(test)]
#[path = "submit_tests.rs"]
mod tests;
