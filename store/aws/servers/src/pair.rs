//! Which servers the default combination is made of on this machine.

use crate::install::{Installation, python};
use crate::servers::Kind;
use crate::shared;
use std::env;
use std::sync::OnceLock;

/// Names the server that speaks SQS and S3 in the default combination, `localstack` or `ministack`, instead of what this
/// machine can run: as a parent process has found it out, or to try out what happens on another machine.
pub const SQS_S3_VARIABLE: &str = "CONVEYOR_TEST_AWS_SQS_S3";

/// One server for DynamoDB and one for SQS and S3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    pub dynamodb: Kind,
    pub sqs_s3: Kind,
    /// Why it is not Localstack that speaks SQS and S3, for a report.
    pub note: Option<String>,
}

impl Pair {
    /// Spares a child process, and its children, from finding it out again.
    pub fn variable(&self) -> (&'static str, &'static str) {
        (SQS_S3_VARIABLE, self.sqs_s3.name())
    }
}

/// Dynoxide and Localstack, or MiniStack where Localstack cannot run. Decided once in a process; nothing is installed.
pub fn default_pair() -> &'static Pair {
    static PAIR: OnceLock<Pair> = OnceLock::new();
    PAIR.get_or_init(|| {
        let variable = |name: &str| env::var(name).ok();
        decide(variable(SQS_S3_VARIABLE).as_deref(), || localstack_runs(variable))
    })
}

/// One that is given runs, and one that is installed needs no other Python.
fn localstack_runs(variable: impl Fn(&str) -> Option<String>) -> Result<(), String> {
    let given = shared::given(Kind::LocalStack, variable).is_some();
    if given || Installation::find().is_ok_and(|installation| installation.holds(Kind::LocalStack)) {
        return Ok(());
    }
    let python = Kind::LocalStack.python().map_or(Ok(()), python::can_be_had);
    python.map_err(|error| error.to_string())
}

fn decide(asked: Option<&str>, localstack_runs: impl FnOnce() -> Result<(), String>) -> Pair {
    let [localstack, ministack] = [Kind::LocalStack, Kind::MiniStack];
    let reason = match asked {
        Some(name) if name == localstack.name() => None,
        Some(name) if name == ministack.name() => Some(format!("{SQS_S3_VARIABLE} is {name}")),
        // A name that nobody has is no reason to leave a server out.
        Some(_) | None => localstack_runs().err(),
    };
    let sqs_s3 = if reason.is_some() { ministack } else { localstack };
    let note = reason.map(|reason| {
        format!(
            "{reason}: {} {} speaks SQS and S3 instead of {} {}, on which nothing is tested",
            ministack.name(),
            ministack.version(),
            localstack.name(),
            localstack.version(),
        )
    });
    Pair { dynamodb: Kind::Dynoxide, sqs_s3, note }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNS: fn() -> Result<(), String> = || Ok(());
    const DOES_NOT: fn() -> Result<(), String> = || Err("there is no Python".to_owned());

    #[test]
    fn the_closest_server_is_taken_where_it_runs() {
        let pair = decide(None, RUNS);
        assert_eq!((pair.dynamodb, pair.sqs_s3, pair.note), (Kind::Dynoxide, Kind::LocalStack, None));
    }

    #[test]
    fn another_takes_its_part_and_the_note_says_why() {
        let pair = decide(None, DOES_NOT);
        assert_eq!((pair.dynamodb, pair.sqs_s3), (Kind::Dynoxide, Kind::MiniStack));
        let note = pair.note.unwrap();
        assert!(note.starts_with("there is no Python: ministack ") && note.contains("localstack"), "{note}");
    }

    #[test]
    fn a_variable_decides_before_the_machine_does() {
        assert_eq!(decide(Some("localstack"), DOES_NOT), decide(None, RUNS));
        let pair = decide(Some("ministack"), RUNS);
        assert_eq!(pair.sqs_s3, Kind::MiniStack);
        assert!(pair.note.as_ref().unwrap().starts_with("CONVEYOR_TEST_AWS_SQS_S3 is ministack: "));
        assert_eq!(decide(Some(pair.variable().1), RUNS).sqs_s3, pair.sqs_s3);
        assert_eq!(decide(Some("nobody"), DOES_NOT).sqs_s3, Kind::MiniStack);
        assert_eq!(decide(Some(""), RUNS).sqs_s3, Kind::LocalStack);
    }

    #[test]
    fn a_server_that_is_given_runs() {
        let given =
            |name: &str| (name == Kind::LocalStack.url_variable()).then(|| "http://127.0.0.1:1".to_owned());
        assert_eq!(localstack_runs(given), Ok(()));
    }
}
