//! What is known of a staged list before it is ingested (SPEC 6.9): how many tasks it makes, or why it cannot be taken.

use crate::job::run::Expected;
use crate::job::task_input::Invalid;
use crate::{
    ListFault, Method, ParamPolicy, Params, RejectedRow, TaskInput, TaskRules, UnknownFields, params,
};
use serde::{Deserialize, Serialize};

/// What reading all of a list came to. Stored beside what pins its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListCount {
    /// It was read to its end.
    Rows(RowCount),
    /// It cannot be taken, whatever job is made of it.
    Fault {
        fault: ListFault,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        line: Option<u64>,
        detail: String,
    },
}

/// The records of a list, or of its first part, as they were counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowCount {
    /// The parameters that its rows could have.
    pub policy: ParamPolicy,
    /// Records, valid or not.
    pub records: u32,
    /// Those that are tasks of a job without parameters.
    pub valid: u32,
    /// Of the valid ones, those that a job's parameters can make invalid: a POST, or one with parameters of its own.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub conditional: u32,
    /// Of the valid ones, those with fields that mean nothing: invalid where such are refused.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_invalid: Option<RejectedRow>,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl RowCount {
    pub fn new(policy: ParamPolicy) -> RowCount {
        RowCount { policy, records: 0, valid: 0, conditional: 0, unknown: 0, first_invalid: None }
    }

    /// A list that was checked with the parameters of the one job that is made of it.
    pub fn checked(policy: ParamPolicy, records: u32, valid: u32) -> RowCount {
        RowCount { records, valid, ..RowCount::new(policy) }
    }

    /// What its records are checked by. Whether unknown fields are refused is for the submit to say.
    pub fn rules(&self) -> TaskRules {
        TaskRules { params: self.policy, unknown_fields: UnknownFields::Ignore }
    }

    /// Counts a record that was checked by [`RowCount::rules`] as of a job without parameters; `place` makes the report of an
    /// invalid one.
    pub fn add(
        &mut self,
        row: Result<TaskInput, Invalid>,
        has_unknown: bool,
        place: impl FnOnce(Invalid) -> RejectedRow,
    ) {
        self.records = self.records.saturating_add(1);
        match row {
            Ok(task) => {
                self.valid = self.valid.saturating_add(1);
                let plain = task.params.is_empty() && task.method == Method::Get;
                self.conditional = self.conditional.saturating_add(u32::from(!plain));
                self.unknown = self.unknown.saturating_add(u32::from(has_unknown));
            }
            Err(invalid) => {
                self.first_invalid.get_or_insert_with(|| place(invalid));
            }
        }
    }

    pub fn invalid(&self) -> u32 {
        self.records.saturating_sub(self.valid)
    }

    /// How many tasks a job gets of it whose parameters make sense by themselves ([`params::check_merged`]).
    pub fn expected(&self, job: &Params) -> Expected {
        match self.conditional > 0 && params::can_conflict(job) {
            false => Expected { tasks: self.valid, exact: true },
            true => Expected { tasks: self.valid.saturating_sub(self.conditional), exact: false },
        }
    }

    /// The same if there may be more records behind these.
    pub fn expected_at_least(&self, job: &Params) -> Expected {
        Expected { exact: false, ..self.expected(job) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn params() -> impl Strategy<Value = Value> {
        let flag = || proptest::option::of(any::<bool>());
        (flag(), flag(), flag(), flag(), flag()).prop_map(|(auto, js, premium, steps, wait)| {
            let mut params = json!({});
            if let Some(auto) = auto {
                params["mode"] = if auto { "auto" } else { "manual" }.into();
            }
            for (key, value) in [("js_render", js), ("premium_proxy", premium), ("json_response", steps)] {
                if let Some(value) = value {
                    params[key] = value.into();
                }
            }
            if wait.is_some() {
                params["wait"] = 5.into();
            }
            params
        })
    }

    fn task() -> impl Strategy<Value = Value> {
        (any::<bool>(), any::<bool>(), proptest::option::of(params())).prop_map(|(good, post, params)| {
            let mut task = json!({"url": if good { "https://a.example" } else { "nowhere" }});
            if post {
                task["method"] = "POST".into();
            }
            if let Some(params) = params {
                task["zenrows_params"] = params;
            }
            task
        })
    }

    proptest! {
        /// Counted without a job, a list has as many tasks for any job as the count says, or at least as many.
        #[test]
        fn a_count_holds_for_every_job(tasks in proptest::collection::vec(task(), 0..20), job in params()) {
            let policy = ParamPolicy::ZenRows;
            let job = params::parse(&job, policy).expect("parameters");
            prop_assume!(params::check_merged(&job, false).is_ok());
            let mut count = RowCount::new(policy);
            for task in &tasks {
                let row = TaskInput::from_json(task, &Params::new(), count.rules());
                count.add(row, false, |invalid| RejectedRow::new(0, 1, 0, invalid));
            }
            let real = tasks.iter().filter(|task| TaskInput::from_json(task, &job, TaskRules::strict(policy)).is_ok()).count() as u32;
            let expected = count.expected(&job);
            prop_assert_eq!(count.records as usize, tasks.len());
            prop_assert!(expected.tasks <= real && real <= count.valid);
            prop_assert!(!expected.exact || expected.tasks == real);
            prop_assert_eq!(count.first_invalid.is_some(), count.invalid() > 0);
            prop_assert!(count.expected(&Params::new()).exact);
        }
    }

    #[test]
    fn what_is_stored_reads_again() {
        let fault = ListCount::Fault { fault: ListFault::LineTooLong, line: Some(3), detail: "long".into() };
        let stored = r#"{"fault":{"fault":"line_too_long","line":3,"detail":"long"}}"#;
        assert_eq!(serde_json::to_string(&fault).unwrap(), stored);
        assert_eq!(serde_json::from_str::<ListCount>(stored).unwrap(), fault);
        let rows = ListCount::Rows(RowCount::checked(ParamPolicy::ZenRows, 7, 5));
        let stored = r#"{"rows":{"policy":"zen_rows","records":7,"valid":5}}"#;
        assert_eq!(serde_json::to_string(&rows).unwrap(), stored);
        assert_eq!(serde_json::from_str::<ListCount>(stored).unwrap(), rows);
    }
}
