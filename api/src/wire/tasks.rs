//! Task lists as callers send them: with a submit, or added to an open job.

use super::read;
use crate::invalid_tasks::InvalidTasks;
use crate::problem::{ApiError, Code, Result};
use crate::warnings::Warnings;
use conveyor_domain::job::task_input::{Invalid, Reason, unknown_fields};
use conveyor_domain::{ParamPolicy, Params, TaskInput, limits};
use conveyor_wire::AddTasks;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

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
        let AddTasks { tasks, last_batch }: AddTasks<&RawValue> = read(body, warnings)?;
        let listed = list(tasks)?;
        let listed = listed.iter().map(|raw| raw.get().as_bytes());
        let tasks = check(listed, job, policy, warnings).await?;
        Ok(AddRequest { tasks, last_batch: last_batch.unwrap_or(false) })
    }
}

/// The tasks of a list, each as its bytes. Past the limit they are only counted: ten million empty ones fit into a body.
fn list(tasks: &RawValue) -> Result<Vec<&RawValue>> {
    struct Counted;

    impl<'de> Visitor<'de> for Counted {
        type Value = (Vec<&'de RawValue>, usize);

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Self::Value, A::Error> {
            let mut items = Vec::new();
            while items.len() < limits::ADD_TASKS_MAX
                && let Some(item) = seq.next_element()?
            {
                items.push(item);
            }
            let mut len = items.len();
            while seq.next_element::<IgnoredAny>()?.is_some() {
                len += 1;
            }
            Ok((items, len))
        }
    }

    let (items, len) = serde_json::Deserializer::from_str(tasks.get())
        .deserialize_seq(Counted)
        .map_err(|_| ApiError::invalid("`tasks` must be a list."))?;
    match len {
        0 => Err(ApiError::invalid("`tasks` must have at least one task.")),
        1..=limits::ADD_TASKS_MAX => Ok(items),
        _ => {
            let max = limits::ADD_TASKS_MAX;
            let detail = format!("`tasks` has {len} items; this route takes at most {max}.");
            Err(ApiError::new(Code::TooManyTasks, detail))
        }
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
    use crate::problem::Unrendered;
    use axum::response::IntoResponse;

    #[test]
    fn a_list_is_counted_past_its_limit_but_not_kept() {
        let text = format!("[1,[2],{{}}{}]", ",3".repeat(limits::ADD_TASKS_MAX));
        let all: &RawValue = serde_json::from_str(&text).unwrap();
        let response = list(all).unwrap_err().into_response();
        let problem = response.extensions().get::<Unrendered>().unwrap().problem.clone();
        let detail = format!(
            "`tasks` has {} items; this route takes at most {}.",
            limits::ADD_TASKS_MAX + 3,
            limits::ADD_TASKS_MAX
        );
        assert_eq!((problem.code.as_str(), problem.detail), ("too_many_tasks", Some(detail)));
        let few: &RawValue = serde_json::from_str("[1,[2],{}]").unwrap();
        assert_eq!(list(few).unwrap().len(), 3);
        for bad in ["[]", "{}", "null"] {
            assert!(list(serde_json::from_str(bad).unwrap()).is_err(), "{bad}");
        }
    }

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
