//! Task lists as callers send them: with a submit, or added to an open job.

use crate::fields::Fields;
use crate::invalid_tasks::InvalidTasks;
use crate::problem::{ApiError, Result};
use crate::warnings::Warnings;
use conveyor_domain::job::task_input::{Invalid, Reason, unknown_fields};
use conveyor_domain::{ParamPolicy, Params, TaskInput, limits};

/// How many tasks are checked before other requests get a turn: a full list takes tens of milliseconds.
pub(crate) const CHECKED_AT_ONCE: usize = 256;

#[derive(Debug)]
pub(crate) struct AddRequest {
    pub tasks: Vec<TaskInput>,
    pub last_batch: bool,
}

impl AddRequest {
    pub async fn parse(
        body: &[u8],
        job: &Params,
        policy: ParamPolicy,
        warnings: &Warnings,
    ) -> Result<AddRequest> {
        let fields = Fields::parse(body, &["tasks", "last_batch"], warnings)?;
        let last_batch = fields.get("last_batch", "true or false")?.unwrap_or(false);
        let listed = fields.list("tasks", limits::ADD_TASKS_MAX)?.unwrap_or_default();
        if listed.is_empty() {
            return Err(ApiError::invalid("`tasks` must have at least one task."));
        }
        let listed = listed.iter().map(|raw| raw.get().as_bytes());
        Ok(AddRequest { tasks: check(listed, job, policy, warnings).await?, last_batch })
    }
}

/// Every task checked, or every invalid one named (SPEC 6.1).
pub(crate) async fn check<'a>(
    listed: impl Iterator<Item = &'a [u8]>,
    job: &Params,
    policy: ParamPolicy,
    warnings: &Warnings,
) -> Result<Vec<TaskInput>> {
    let mut tasks = Vec::new();
    let mut invalid = InvalidTasks::default();
    for (index, json) in listed.enumerate() {
        if index % CHECKED_AT_ONCE == CHECKED_AT_ONCE - 1 {
            tokio::task::yield_now().await;
        }
        // One task at a time: parsed JSON takes many times the memory of its text.
        match check_one(index, json, job, policy, warnings) {
            Ok(task) => tasks.push(task),
            Err(why) => invalid.add(index, None, why),
        }
    }
    let total = tasks.len() + invalid.count;
    if invalid.is_empty() { Ok(tasks) } else { Err(ApiError::invalid_tasks(total, &invalid)) }
}

/// Task number `index` of a body.
pub(crate) fn check_one(
    index: usize,
    json: &[u8],
    job: &Params,
    policy: ParamPolicy,
    warnings: &Warnings,
) -> std::result::Result<TaskInput, Invalid> {
    // Checked before it is parsed, for the same reason.
    if json.len() > limits::TASK_JSON_MAX_BYTES {
        return Err(Invalid::new(Reason::MalformedTask, &format!("{} bytes", json.len())));
    }
    // Well-formed, but nested too deeply or with half a character: nothing that could be a task.
    let value = serde_json::from_slice(json).map_err(|_| Invalid::new(Reason::MalformedTask, ""))?;
    warn(index, unknown_fields(&value), warnings);
    TaskInput::from_json(&value, job, warnings.task_rules(policy))
}

/// Names the fields of a task that are ignored, also of an invalid one: a misspelt field may be why.
pub(crate) fn warn<'a>(index: usize, unknown: impl Iterator<Item = &'a str>, warnings: &Warnings) {
    for field in unknown {
        // Where they are refused, that is one of the reasons why a task is invalid.
        let _ = warnings.unknown(&format!("tasks[{index}].{field}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_task_is_limited_as_a_whole() {
        let text =
            format!(r#"{{"url": "http://a", "external_id": "{}"}}"#, "x".repeat(limits::TASK_JSON_MAX_BYTES));
        let refused =
            check_one(0, text.as_bytes(), &Params::new(), ParamPolicy::Any, &Warnings::strict()).unwrap_err();
        assert_eq!(refused.reason, Reason::MalformedTask);
        assert!(refused.value.ends_with("bytes"));
    }
}
