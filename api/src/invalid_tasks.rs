//! Tasks at fault, as an answer names them: all are counted, and as many named as fit into an answer.

use conveyor_domain::job::task_input::Invalid;
use conveyor_domain::limits;
use conveyor_wire::InvalidTask;

#[derive(Debug, Default)]
pub(crate) struct InvalidTasks {
    pub count: usize,
    pub named: Vec<InvalidTask>,
}

impl InvalidTasks {
    pub fn add(&mut self, index: usize, line: Option<u64>, invalid: Invalid) {
        self.add_up_to(limits::INVALID_TASKS_MAX, index, line, invalid);
    }

    pub fn add_up_to(&mut self, max: usize, index: usize, line: Option<u64>, invalid: Invalid) {
        self.count += 1;
        if self.named.len() < max {
            let Invalid { reason, value } = invalid;
            self.named.push(InvalidTask { index, line, reason: reason.into(), value });
        }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::job::task_input::Reason;

    #[test]
    fn all_are_counted_and_as_many_named_as_fit() {
        let mut invalid = InvalidTasks::default();
        assert!(invalid.is_empty());
        for index in 0..limits::INVALID_TASKS_MAX + 5 {
            invalid.add(index, None, Invalid::new(Reason::MalformedUrl, "x"));
        }
        assert_eq!(invalid.count, limits::INVALID_TASKS_MAX + 5);
        assert_eq!(invalid.named.len(), limits::INVALID_TASKS_MAX);
    }
}
