//! What this client reads of dead letters.

use serde::{Deserialize, Serialize};

#[derive(Debug, Deserialize)]
pub struct Letter {
    pub letter_id: String,
    pub job_id: Option<String>,
    pub run_id: Option<String>,
    pub body: String,
    pub first_at: String,
    pub last_at: String,
    pub tries: u64,
    pub redrives: u64,
    pub last_error: Option<String>,
    pub next_sweep: String,
}

/// What became of a letter.
#[derive(Debug, Serialize, Deserialize)]
pub struct Became {
    pub letter_id: String,
    pub outcome: String,
    /// Why it was not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Became {
    pub fn is_done(&self) -> bool {
        matches!(self.outcome.as_str(), "sent" | "acknowledged" | "purged" | "gone")
    }
}

/// What became of many.
#[derive(Debug, Deserialize)]
pub struct Page {
    pub dead_letters: Vec<Became>,
    pub more: bool,
    pub next_cursor: Option<String>,
}
