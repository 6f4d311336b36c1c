//! Dead letters, and what becomes of them (SPEC 6.15).

use super::Time;
use crate::operations::{LetterView, Redriven};
use conveyor_domain::repair::dead_letter::Verdict;
use conveyor_domain::{JobId, LetterId, RunId};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LetterJson<'a> {
    letter_id: LetterId,
    #[serde(skip_serializing_if = "Option::is_none")]
    job_id: Option<JobId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<RunId>,
    /// What was sent.
    body: &'a str,
    first_at: Time,
    last_at: Time,
    tries: u32,
    redrives: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<&'a str>,
    /// What the next sweep does with it.
    #[schemars(extend("enum" = ["acknowledge", "send_again", "keep", "fail_run"]))]
    next_sweep: &'static str,
}

impl<'a> From<&'a LetterView> for LetterJson<'a> {
    fn from(view: &'a LetterView) -> LetterJson<'a> {
        LetterJson {
            letter_id: view.letter.id,
            job_id: view.run.map(|key| key.job),
            run_id: view.run.map(|key| key.run),
            body: &view.letter.body,
            first_at: Time(view.letter.first),
            last_at: Time(view.letter.last),
            tries: view.tries,
            redrives: view.redrives,
            last_error: view.last_error.as_deref(),
            next_sweep: match view.verdict {
                Verdict::Acknowledge => "acknowledge",
                Verdict::SendAgain => "send_again",
                Verdict::Keep => "keep",
                Verdict::FailRun(_) => "fail_run",
            },
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LettersJson<'a> {
    pub dead_letters: Vec<LetterJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// What became of one letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "LetterOutcome")]
pub(crate) enum Became {
    Sent,
    Acknowledged,
    /// It was sent again as often as it may.
    RedriveLimit,
    /// There is none any more.
    Gone,
    Purged,
    Failed,
}

impl From<Option<Redriven>> for Became {
    fn from(redriven: Option<Redriven>) -> Became {
        match redriven {
            Some(Redriven::Sent) => Became::Sent,
            Some(Redriven::Acknowledged) => Became::Acknowledged,
            Some(Redriven::Refused) => Became::RedriveLimit,
            None => Became::Gone,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BecameJson {
    pub letter_id: LetterId,
    pub outcome: Became,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl BecameJson {
    pub fn new(letter_id: LetterId, outcome: Became) -> BecameJson {
        BecameJson { letter_id, outcome, error: None }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RedrivenJson {
    pub dead_letters: Vec<BecameJson>,
    /// Whether there may be others that fit, behind these.
    pub more: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
