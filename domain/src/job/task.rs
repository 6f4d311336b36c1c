//! One URL in one run, and what became of it.

use crate::{FailureClass, Format, InheritedFrom, Problem, Spend, TaskId, TaskInput, Timestamp, limits};
use serde::{Deserialize, Serialize};

crate::words! {
    #[derive(Hash)]
    pub enum TaskStatus as json {
        Pending = "pending",
        Processing = "processing",
        Successful = "successful",
        Failed = "failed",
    }
}

impl TaskStatus {
    pub fn is_terminal(self) -> bool {
        matches!(self, TaskStatus::Successful | TaskStatus::Failed)
    }
}

/// Where a result body is. Several small bodies may share an object. An empty body has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultRef {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// The object is this body and nothing else.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
    pub offset: u64,
    pub length: u64,
    pub format: Format,
    pub http_status: u16,
    /// The CRC-32 of the body (SPEC 6.14). Rows of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crc32: Option<u32>,
}

impl ResultRef {
    /// A body without bytes.
    pub fn empty(format: Format, http_status: u16) -> ResultRef {
        ResultRef { object: None, whole: false, offset: 0, length: 0, format, http_status, crc32: None }
    }
}

/// A task as it is read.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub id: TaskId,
    pub status: TaskStatus,
    pub input: TaskInput,
    pub result: Option<ResultRef>,
    pub error: Option<Problem>,
    /// Of a failed one; rows of earlier versions do not say.
    pub class: Option<FailureClass>,
    /// Whose result it is, if it was copied from another run.
    pub inherited: Option<InheritedFrom>,
    pub created: Timestamp,
    pub updated: Timestamp,
}

impl Task {
    /// When it ended, if it has: that of a copy is when the task did that it is a copy of.
    pub fn ended(&self) -> Timestamp {
        self.inherited.map_or(self.updated, |from| from.ended)
    }

    /// About how much the row takes, in memory and in an answer.
    pub fn weight(&self) -> usize {
        let metadata: usize = self.input.metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
        let error = self.error.as_ref().and_then(|problem| problem.detail.as_ref()).map_or(0, String::len);
        self.input.url.len() + metadata + error
    }
}

/// One try that reached an end.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// From 1.
    pub number: u32,
    pub started: Timestamp,
    pub ended: Timestamp,
    pub error: Option<Problem>,
    pub spend: Spend,
}

/// How a claimed task ended (SPEC 6.4).
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Successful(ResultRef),
    Failed { class: FailureClass, problem: Problem },
    Retry { problem: Problem, not_before: Timestamp },
    Release,
}

impl Outcome {
    /// The status that the row has afterwards.
    pub fn status(&self) -> TaskStatus {
        match self {
            Outcome::Successful(_) => TaskStatus::Successful,
            Outcome::Failed { .. } => TaskStatus::Failed,
            Outcome::Retry { .. } | Outcome::Release => TaskStatus::Pending,
        }
    }
}

/// What a claim does to a row in this state (SPEC 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimDecision {
    Claim,
    Terminal,
    Early(Timestamp),
    /// Claim it, to fail it: too many workers have died on it.
    Exhausted,
}

pub fn decide_claim(
    status: TaskStatus,
    claims: u32,
    claims_max: u32,
    not_before: Timestamp,
    now: Timestamp,
) -> ClaimDecision {
    match status {
        TaskStatus::Successful | TaskStatus::Failed => ClaimDecision::Terminal,
        TaskStatus::Pending if is_early(not_before, now) => ClaimDecision::Early(not_before),
        TaskStatus::Pending | TaskStatus::Processing if claims >= claims_max => ClaimDecision::Exhausted,
        TaskStatus::Pending | TaskStatus::Processing => ClaimDecision::Claim,
    }
}

/// Whether a retry still has to wait. One that is set impossibly far ahead was set under a clock that was wrong: it is due.
fn is_early(not_before: Timestamp, now: Timestamp) -> bool {
    not_before > now && not_before <= now.after(limits::NOT_BEFORE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_never_touches_a_terminal_row() {
        for status in [TaskStatus::Successful, TaskStatus::Failed] {
            assert_eq!(decide_claim(status, 0, 20, Timestamp(0), Timestamp(0)), ClaimDecision::Terminal);
        }
    }

    #[test]
    fn a_retry_waits_for_its_time() {
        let at = |now| decide_claim(TaskStatus::Pending, 1, 20, Timestamp(10), Timestamp(now));
        assert_eq!(at(9), ClaimDecision::Early(Timestamp(10)));
        assert_eq!(at(10), ClaimDecision::Claim);
    }

    #[test]
    fn a_retry_set_under_a_wrong_clock_does_not_wait_for_years() {
        let year = Timestamp(365 * 24 * 3_600_000);
        assert_eq!(decide_claim(TaskStatus::Pending, 1, 20, year, Timestamp(1)), ClaimDecision::Claim);
    }

    #[test]
    fn too_many_claims_end_it() {
        let with = |claims| decide_claim(TaskStatus::Processing, claims, 20, Timestamp(0), Timestamp(1));
        assert_eq!(with(19), ClaimDecision::Claim);
        assert_eq!(with(20), ClaimDecision::Exhausted);
    }
}
