use crate::{Open, Time};
use conveyor_domain::{JobId, LetterId, RunId, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// A dead letter, and what becomes of it (SPEC 6.15).
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Letter {
    pub letter_id: LetterId,
    pub job_id: Option<JobId>,
    pub run_id: Option<RunId>,
    /// What was sent.
    pub body: String,
    pub first_at: Time,
    pub last_at: Time,
    pub tries: u32,
    pub redrives: u32,
    pub last_error: Option<String>,
    /// What the next sweep does with it.
    pub next_sweep: Open<NextSweep>,
}

words! {
    #[derive(JsonSchema)]
    #[schemars(inline)]
    pub enum NextSweep as json {
        Acknowledge = "acknowledge",
        SendAgain = "send_again",
        Keep = "keep",
        FailRun = "fail_run",
    }
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Letters {
    pub dead_letters: Vec<Letter>,
    pub next_cursor: Option<String>,
}

words! {
    /// What became of one letter.
    #[derive(JsonSchema)]
    pub enum LetterOutcome as json {
        Sent = "sent",
        Acknowledged = "acknowledged",
        /// It was sent again as often as it may.
        RedriveLimit = "redrive_limit",
        /// There is none any more.
        Gone = "gone",
        Purged = "purged",
        Failed = "failed",
    }
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Became {
    pub letter_id: LetterId,
    pub outcome: Open<LetterOutcome>,
    pub error: Option<String>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Redriven {
    pub dead_letters: Vec<Became>,
    /// Whether there may be others that fit, behind these.
    pub more: bool,
    pub next_cursor: Option<String>,
}
