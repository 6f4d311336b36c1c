//! A submit, checked whole before anything is stored (SPEC 6.1, 10).

use super::tasks;
use crate::fields::Fields;
use crate::problem::{ApiError, Result};
use conveyor_domain::TaskInput;
use conveyor_domain::job::JobSpec;
use conveyor_domain::limits;
use conveyor_domain::params::{self, Format, ParamPolicy, Params};
use conveyor_domain::task_input::{Invalid, parse_external_id, parse_metadata};
use serde_json::Value;

const FIELDS: &[&str] = &[
    "type",
    "status",
    "tasks",
    "zenrows_params",
    "external_id",
    "name",
    "metadata",
    "max_inflight",
    "webhook",
    "schedule",
    "file_input_id",
];
/// Known to the batch client, not yet to us.
const NOT_IMPLEMENTED: [&str; 3] = ["webhook", "schedule", "file_input_id"];

#[derive(Debug)]
pub(crate) struct SubmitRequest {
    pub open: bool,
    pub spec: JobSpec,
    pub tasks: Vec<TaskInput>,
}

impl SubmitRequest {
    pub async fn parse(body: &[u8], policy: ParamPolicy, run_tasks_max: u32) -> Result<SubmitRequest> {
        let fields = Fields::parse(body, FIELDS)?;
        refuse_unimplemented(&fields)?;
        let open = parse_status(&fields)?;
        let spec = parse_spec(&fields, policy)?;
        let max = limits::INLINE_TASKS_MAX.min(run_tasks_max as usize);
        let listed = fields.list("tasks", max)?.unwrap_or_default();
        if listed.is_empty() && !open {
            return Err(ApiError::invalid("`tasks` must have at least one task, unless the job is open."));
        }
        let tasks = tasks::check(&listed, &spec.params, policy).await?;
        Ok(SubmitRequest { open, spec, tasks })
    }
}

fn refuse_unimplemented(fields: &Fields<'_>) -> Result<()> {
    if let Some(name) = NOT_IMPLEMENTED.iter().find(|name| fields.has(name)) {
        return Err(ApiError::not_implemented(&format!("`{name}`")));
    }
    const EXPECTED: &str = "\"regular\"";
    match fields.get::<String>("type", EXPECTED)?.as_deref() {
        None | Some("regular") => Ok(()),
        Some("scheduled") => Err(ApiError::not_implemented("`type` \"scheduled\"")),
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
        max_inflight: parse_max_inflight(fields)?,
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

fn parse_max_inflight(fields: &Fields<'_>) -> Result<u32> {
    let expected = format!("a number from 1 to {}", limits::MAX_INFLIGHT_MAX);
    match fields.get::<u32>("max_inflight", &expected)? {
        None => Ok(limits::MAX_INFLIGHT_DEFAULT),
        Some(n) if (1..=limits::MAX_INFLIGHT_MAX).contains(&n) => Ok(n),
        Some(_) => Err(ApiError::invalid(format!("`max_inflight` must be {expected}."))),
    }
}

#[cfg(test)]
#[path = "submit_tests.rs"]
mod tests;
