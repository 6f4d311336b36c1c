use crate::{Cursor, Open, Time};
use conveyor_domain::{JobId, LetterId, RunId, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// A dead letter.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Letter {
    pub letter_id: LetterId,
    pub job_id: Option<JobId>,
    pub run_id: Option<RunId>,
    /// What was sent.
    #[schemars(extend("examples" = ["1:ingest:01KCX5T0Q8H2V4M6N8P0R2S4T6:01KCX5T0Q8M3Z7C9D1F5G7H9J1:0"]))]
    pub body: String,
    /// When it first became a dead letter.
    pub first_at: Time,
    /// When it last became a dead letter.
    pub last_at: Time,
    /// How often it was tried.
    pub tries: u32,
    /// How often it was redriven.
    pub redrives: u32,
    /// What the last attempt said.
    #[schemars(extend("examples" = ["the store does not answer"]))]
    pub last_error: Option<String>,
    /// What the next sweep does with it: `acknowledge` it, because no run waits for it; `send_again`; `keep` it for
    /// an operator; `fail_run`, because it waited too long.
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

/// A page of dead letters.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Letters {
    pub dead_letters: Vec<Letter>,
    #[schemars(with = "Option<Cursor>")]
    pub next_cursor: Option<String>,
}

words! {
    /// `sent`: again. `acknowledged`: no run waits for it; it was acknowledged. `redrive_limit`: it was redriven as
    /// often as allowed. `gone`: there is none any more. `purged`: an operator purged it. `failed`: it did not work
    /// this time; `error` says why.
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

/// What became of one letter.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Became {
    pub letter_id: LetterId,
    pub outcome: Open<LetterOutcome>,
    /// Why it failed.
    pub error: Option<String>,
}

/// What became of the dead letters of a redrive.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Redriven {
    pub dead_letters: Vec<Became>,
    /// Whether there may be others that fit, behind these.
    pub more: bool,
    #[schemars(with = "Option<Cursor>")]
    pub next_cursor: Option<String>,
}
