//! Task lists as callers send them: with a submit, or added to an open job.

use crate::fields::Fields;
use crate::invalid_tasks::InvalidTasks;
use crate::problem::{ApiError, Result};
use conveyor_domain::params::{ParamPolicy, Params};
use conveyor_domain::task_input::{Invalid, Reason};
use conveyor_domain::{TaskInput, limits};

/// How many tasks are checked before other requests get a turn: a full list takes tens of milliseconds.
pub(crate) const CHECKED_AT_ONCE: usize = 256;

#[derive(Debug)]
pub(crate) struct AddRequest {
    pub tasks: Vec<TaskInput>,
    pub last_batch: bool,
}

impl AddRequest {
    pub async fn parse(body: &[u8], job: &Params, policy: ParamPolicy) -> Result<AddRequest> {
        let fields = Fields::parse(body, &["tasks", "last_batch"])?;
        let last_batch = fields.get("last_batch", "true or false")?.unwrap_or(false);
        let listed = fields.list("tasks", limits::ADD_TASKS_MAX)?.unwrap_or_default();
        if listed.is_empty() {
            return Err(ApiError::invalid("`tasks` must have at least one task."));
        }
        let listed = listed.iter().map(|raw| raw.get().as_bytes());
        Ok(AddRequest { tasks: check(listed, job, policy).await?, last_batch })
    }
}

/// Every task checked, or every invalid one named (SPEC 6.1).
pub(crate) async fn check<'a>(
    listed: impl Iterator<Item = &'a [u8]>,
    job: &Params,
    policy: ParamPolicy,
) -> Result<Vec<TaskInput>> {
    let mut tasks = Vec::new();
    let mut invalid = InvalidTasks::default();
    for (index, json) in listed.enumerate() {
        if index % CHECKED_AT_ONCE == CHECKED_AT_ONCE - 1 {
            tokio::task::yield_now().await;
        }
        // One task at a time: parsed JSON takes many times the memory of its text.
        match check_one(json, job, policy) {
            Ok(task) => tasks.push(task),
            Err(why) => invalid.add(index, None, why),
        }
    }
    let total = tasks.len() + invalid.count;
    if invalid.is_empty() { Ok(tasks) } else { Err(ApiError::invalid_tasks(total, &invalid)) }
}

pub(crate) fn check_one(
    json: &[u8],
    job: &Params,
    policy: ParamPolicy,
) -> std::result::Result<TaskInput, Invalid> {
    // Checked before it is parsed, for the same reason.
    if json.len() > limits::TASK_JSON_MAX_BYTES {
        return Err(Invalid::new(Reason::MalformedTask, &format!("{} bytes", json.len())));
    }
    // Well-formed, but nested too deeply or with half a character: nothing that could be a task.
    let value = serde_json::from_slice(json).map_err(|_| Invalid::new(Reason::MalformedTask, ""))?;
    TaskInput::from_json(&value, job, policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_task_is_limited_as_a_whole() {
        let text =
            format!(r#"{{"url": "http://a", "external_id": "{}"}}"#, "x".repeat(limits::TASK_JSON_MAX_BYTES));
        let refused = check_one(text.as_bytes(), &Params::new(), ParamPolicy::Any).unwrap_err();
        assert_eq!(refused.reason, Reason::MalformedTask);
        assert!(refused.value.ends_with("bytes"));
    }
}
