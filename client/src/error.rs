use conveyor_domain::Problem;
use conveyor_wire::InvalidTask;
use std::io;
use std::time::Duration;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server answered with an error, or something in front of it did.
    #[error("{}", line(problem))]
    Refused {
        problem: Box<Problem>,
        /// Whether a repeat can help, and the wait that the server asked for.
        retry_after: Option<Duration>,
    },
    /// There was no answer, or not all of it. What was asked for may have been done.
    #[error("cannot reach {server}: {reason}")]
    Unreachable { server: String, reason: String, can_retry: bool },
    /// The answer is not one of this API.
    #[error("the answer makes no sense: {0}")]
    NotUnderstood(String),
    /// What was to be uploaded cannot be read.
    #[error("{name} cannot be read: {source}")]
    Unreadable { name: String, source: io::Error },
    /// What was downloaded cannot be written.
    #[error("{name}: {source}")]
    Unwritable { name: String, source: io::Error },
    #[error("{0} changed while it was uploaded")]
    FileChanged(String),
    /// The upload is not one of this file.
    #[error("the upload cannot be resumed: {0}")]
    NotResumable(NotResumable),
    /// The client was given something that it cannot work with.
    #[error("{0}")]
    Usage(String),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotResumable {
    #[error("a job was already made of it")]
    Claimed,
    #[error("it is for {declared} bytes, and {name} has {size}")]
    OtherSize { declared: u64, name: String, size: u64 },
    #[error("parts of another size are there")]
    OtherParts,
}

impl Error {
    /// Whether a repeat can help, and how long the server asked to wait before it.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Error::Refused { retry_after, .. } => *retry_after,
            Error::Unreachable { can_retry, .. } => can_retry.then_some(Duration::ZERO),
            _ => None,
        }
    }

    /// What the server answered, if it did.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Error::Refused { problem, .. } => Some(problem),
            _ => None,
        }
    }

    pub fn has_code(&self, code: &str) -> bool {
        self.problem().is_some_and(|problem| problem.code == code)
    }

    pub fn is_not_found(&self) -> bool {
        self.problem().is_some_and(|problem| problem.status == 404)
    }

    /// The tasks that were refused, by their indexes in the request and their lines in the list, as many as the server
    /// names.
    pub fn invalid_tasks(&self) -> Vec<InvalidTask> {
        let tasks = self.problem().and_then(|problem| problem.extra.get("invalid_tasks")).cloned();
        tasks.and_then(|tasks| serde_json::from_value(tasks).ok()).unwrap_or_default()
    }

    /// Whether the server may do better later.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Error::Refused { problem, .. } => problem.status >= 500,
            Error::Unreachable { .. } => true,
            _ => false,
        }
    }

    pub(crate) fn retriable(mut self) -> Error {
        match &mut self {
            Error::Refused { retry_after, .. } => *retry_after = Some(retry_after.unwrap_or_default()),
            Error::Unreachable { can_retry, .. } => *can_retry = true,
            _ => {}
        }
        self
    }

    pub(crate) fn not_understood(why: impl ToString) -> Error {
        Error::NotUnderstood(why.to_string())
    }
}

fn line(Problem { title, code, detail, .. }: &Problem) -> String {
    match detail {
        Some(detail) => format!("{title}: {detail} ({code})"),
        None => format!("{title} ({code})"),
    }
}
