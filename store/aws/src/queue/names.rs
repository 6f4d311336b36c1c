//! What the queues are called (SPEC 5.5).

use conveyor_domain::QueueName;
use conveyor_store::{Error, Result};

/// What SQS takes: letters, digits, `-` and `_`.
const NAME_MAX: usize = 80;
/// `-run-` and the id of a run.
const SUFFIX_MAX: usize = 5 + 26;

#[derive(Clone, Debug)]
pub struct Names {
    prefix: String,
}

impl Names {
    pub fn new(prefix: &str) -> Names {
        Names { prefix: prefix.to_owned() }
    }

    /// Looked at before anything is made: what SQS would refuse later is a run without a queue.
    pub fn check(&self) -> Result<()> {
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let fits = (1..=NAME_MAX - SUFFIX_MAX).contains(&self.prefix.len());
        if fits && self.prefix.chars().all(legal) {
            return Ok(());
        }
        let (prefix, max) = (&self.prefix, NAME_MAX - SUFFIX_MAX);
        Err(Error::Conflict(format!(
            "the queue prefix {prefix:?} is not 1 to {max} letters, digits, hyphens and underscores"
        )))
    }

    pub fn of(&self, queue: QueueName) -> String {
        format!("{}-{queue}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::RunId;

    #[test]
    fn the_longest_prefix_leaves_room_for_a_run() {
        let names = Names::new(&"p".repeat(NAME_MAX - SUFFIX_MAX));
        names.check().unwrap();
        assert_eq!(names.of(QueueName::Run(RunId::from_bytes([255; 16]))).len(), NAME_MAX);
    }

    #[test]
    fn a_prefix_that_sqs_would_refuse_is_refused() {
        for bad in ["", "a b", "a.b", "ü", &"p".repeat(NAME_MAX - SUFFIX_MAX + 1)] {
            assert!(Names::new(bad).check().is_err(), "{bad}");
        }
    }

    #[test]
    fn names_are_those_of_the_specification() {
        let names = Names::new("conveyor");
        assert_eq!(names.of(QueueName::Control), "conveyor-control");
        assert_eq!(names.of(QueueName::ControlDead), "conveyor-control-dead");
        let run: RunId = "01M7HM8B3WQEJPSCCNTAWG13AA".parse().unwrap();
        assert_eq!(names.of(QueueName::Run(run)), "conveyor-run-01M7HM8B3WQEJPSCCNTAWG13AA");
    }
}
