//! Stored rows of which a part cannot be read (SPEC 6.14). The part is replaced by an error marker and
//! the rest of the row is served, so that a damaged row costs only itself.

use crate::{Metadata, Method, Params, Problem, TaskId, TaskInput};

/// The code of the marker, and of a task that failed because its input cannot be read.
pub const CODE: &str = "damaged";

/// The error marker of a task row.
pub fn problem(parts: &str) -> Problem {
    let title = "Stored data is damaged";
    Problem::new(500, CODE, title).with_detail(format!("Of this task, the {parts} cannot be read."))
}

crate::words! {
    /// What is wrong with a stored body. Reading it again does not help.
    pub enum BodyFault {
        /// Its object is not there.
        Missing = "missing",
        /// Its object ends before the body does, or cannot be read.
        Truncated = "truncated",
        /// The bytes are not those that were written.
        Damaged = "damaged",
    }
}

/// The code of a body that is not what was written.
pub const BODY_CODE: &str = "result_damaged";

/// Stands in the place of such a body.
pub fn problem_of_body(task: TaskId) -> Problem {
    Problem::new(410, BODY_CODE, "Result damaged").with_detail(body_detail(task))
}

pub fn body_detail(task: TaskId) -> String {
    format!(
        "What is stored of the result of task {task} is not what was written. Asking again does not help: a rerun of its job, \
         `POST /v1/jobs/{{job}}/rerun`, fetches it again."
    )
}

impl Problem {
    pub fn is_damage(&self) -> bool {
        self.code == CODE
    }
}

/// The parts of one row that could not be read.
#[derive(Debug, Default)]
pub struct Damage(Vec<&'static str>);

impl Damage {
    /// A part as it was read, or a note that it could not be.
    pub fn read<T, E>(&mut self, part: &'static str, read: Result<T, E>) -> Option<T> {
        if read.is_err() {
            self.0.push(part);
        }
        read.ok()
    }

    /// The parts by name, unless all could be read.
    pub fn parts(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0.join(", "))
    }

    pub fn problem(&self) -> Option<Problem> {
        self.parts().map(|parts| problem(&parts))
    }
}

impl TaskInput {
    /// Stands for an input that cannot be read. A valid input always has a URL.
    pub fn damaged() -> TaskInput {
        TaskInput {
            url: String::new(),
            external_id: None,
            metadata: Metadata::new(),
            params: Params::new(),
            method: Method::Get,
            body: None,
        }
    }

    pub fn is_damaged(&self) -> bool {
        self.url.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_parts_that_cannot_be_read_are_named() {
        let mut damage = Damage::default();
        assert_eq!(damage.read("input", Ok::<_, ()>(1)), Some(1));
        assert_eq!(damage.problem(), None);
        assert_eq!(damage.read::<u8, _>("result", Err(())), None);
        let problem = damage.problem().unwrap();
        assert!(problem.is_damage());
        assert_eq!(problem.detail.as_deref(), Some("Of this task, the result cannot be read."));
    }

    #[test]
    fn a_damaged_input_stays_one_when_it_is_stored_again() {
        let stored = serde_json::to_string(&TaskInput::damaged()).unwrap();
        assert!(serde_json::from_str::<TaskInput>(&stored).unwrap().is_damaged());
        assert!(!TaskInput::from_url("https://example.com/").unwrap().is_damaged());
    }
}
