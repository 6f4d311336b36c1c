//! A run that replays an earlier one (SPEC 6.19): which tasks are done again, and what becomes of the others.

use crate::{
    Counts, FailureClass, Outcome, Problem, ResultRef, RunId, Task, TaskInput, TaskStatus, Timestamp,
};
use serde::{Deserialize, Serialize};

/// The tasks of a run that are done again. What is empty admits every task; with nothing in it, it is a full rerun.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub status: Vec<TaskStatus>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub error_class: Vec<FailureClass>,
    /// The status that the target answered with, or that the error says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub http_status: Vec<u16>,
    /// A host, and all below it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domain: Vec<String>,
}

impl Selection {
    pub fn is_everything(&self) -> bool {
        *self == Selection::default()
    }

    /// Whether the status alone decides.
    pub fn is_by_status(&self) -> bool {
        Selection { status: Vec::new(), ..self.clone() }.is_everything()
    }

    pub fn picks(&self, task: &Task) -> bool {
        let by_status = self.status.is_empty() || self.status.contains(&task.status);
        let by_class = self.error_class.is_empty()
            || task
                .class
                .is_some_and(|class| task.status == TaskStatus::Failed && self.error_class.contains(&class));
        let by_http = self.http_status.is_empty()
            || http_status(task).is_some_and(|status| self.http_status.contains(&status));
        let by_domain = self.domain.is_empty()
            || host(&task.input.url)
                .is_some_and(|host| self.domain.iter().any(|domain| is_within(&host, domain)));
        by_status && by_class && by_http && by_domain
    }
}

/// What the target answered in the end, or what stands for it.
pub fn http_status(task: &Task) -> Option<u16> {
    match task.status {
        TaskStatus::Successful => task.result.as_ref().map(|result| result.http_status),
        TaskStatus::Failed => task.error.as_ref().map(|error| error.status),
        TaskStatus::Pending | TaskStatus::Processing => None,
    }
}

fn host(url: &str) -> Option<String> {
    url::Url::parse(url).ok()?.host_str().map(str::to_ascii_lowercase)
}

fn is_within(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// An earlier run as the source of a later one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    pub run: RunId,
    #[serde(default)]
    pub selection: Selection,
}

/// A task of a run that replays another.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayedTask {
    pub index: u32,
    pub input: TaskInput,
    /// Copied with its end; otherwise it is done again.
    pub inherited: Option<Inherited>,
}

/// The end of a task that an earlier run brought about.
#[derive(Clone, Debug, PartialEq)]
pub struct Inherited {
    pub from: InheritedFrom,
    pub end: InheritedEnd,
}

#[derive(Clone, Debug, PartialEq)]
pub enum InheritedEnd {
    Successful(ResultRef),
    Failed { class: FailureClass, problem: Problem },
}

impl InheritedEnd {
    pub fn outcome(&self) -> Outcome {
        match self.clone() {
            InheritedEnd::Successful(result) => Outcome::Successful(result),
            InheritedEnd::Failed { class, problem } => Outcome::Failed { class, problem },
        }
    }

    pub fn count(&self, counts: &mut Counts) {
        match self {
            InheritedEnd::Successful(_) => counts.successful += 1,
            InheritedEnd::Failed { class, .. } => counts.add_failed(*class),
        }
    }
}

/// The run that did it, however many runs it was handed down through, and when that was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InheritedFrom {
    pub run: RunId,
    pub ended: Timestamp,
}

impl Replay {
    /// What becomes of a task of the earlier run.
    pub fn replayed(&self, task: Task) -> ReplayedTask {
        let index = task.id.index();
        if self.selection.picks(&task) {
            return ReplayedTask { index, input: task.input, inherited: None };
        }
        let from = task.inherited.unwrap_or(InheritedFrom { run: self.run, ended: task.updated });
        let end = match (task.status, task.result, task.error) {
            (TaskStatus::Successful, Some(result), _) => InheritedEnd::Successful(result),
            (TaskStatus::Failed, _, Some(problem)) => {
                InheritedEnd::Failed { class: task.class.unwrap_or(FailureClass::Other), problem }
            }
            (TaskStatus::Successful, None, Some(problem)) if problem.is_damage() => {
                InheritedEnd::Failed { class: FailureClass::Other, problem }
            }
            // It never ended, and nobody asked for it: it stays in the list as what it is, and can be asked for later.
            (
                TaskStatus::Pending | TaskStatus::Processing | TaskStatus::Successful | TaskStatus::Failed,
                _,
                _,
            ) => InheritedEnd::Failed { class: FailureClass::Other, problem: not_started() },
        };
        ReplayedTask { index, input: task.input, inherited: Some(Inherited { from, end }) }
    }
}

fn not_started() -> Problem {
    Problem::new(409, "not_started", "The task was not done").with_detail(
        "Its run ended before it was done, and the rerun that this row belongs to did not ask for it.",
    )
}

/// What was inherited, among these.
pub fn inherited_counts(tasks: &[ReplayedTask]) -> Counts {
    let mut counts = Counts::default();
    for inherited in tasks.iter().filter_map(|task| task.inherited.as_ref()) {
        inherited.end.count(&mut counts);
    }
    counts
}

#[cfg(test)]
#[path = "rerun_tests.rs"]
mod tests;
