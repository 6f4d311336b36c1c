//! What this client reads of an audit.

use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Debug, Deserialize)]
pub struct Audit {
    pub job_id: String,
    pub agrees: bool,
    pub run: Run,
    pub list: Option<List>,
    pub total: u64,
    pub rows: Option<Rows>,
    pub counters: Counters,
    pub results: Option<Results>,
    #[serde(default)]
    pub disagreements: Vec<String>,
    #[serde(default)]
    pub findings: Vec<Finding>,
    #[serde(default)]
    pub unsure: Vec<Unsure>,
}

#[derive(Debug, Deserialize)]
pub struct Run {
    pub run_id: String,
    pub status: String,
}

#[derive(Debug, Deserialize)]
pub struct List {
    pub accepted: u64,
    pub rejected: u64,
    pub whole: bool,
}

#[derive(Debug, Deserialize)]
pub struct Rows {
    pub pending: u64,
    pub processing: u64,
    pub successful: u64,
    pub failed: u64,
    #[serde(default)]
    pub failure_reasons: BTreeMap<String, u64>,
}

/// A counter that was damaged can be anything.
#[derive(Debug, Deserialize)]
pub struct Counters {
    pub successful: i64,
    pub failed: i64,
    #[serde(default)]
    pub failure_reasons: BTreeMap<String, i64>,
}

#[derive(Debug, Deserialize)]
pub struct Results {
    pub present: u64,
    pub missing: u64,
}

#[derive(Debug, Deserialize)]
pub struct Finding {
    pub repair: String,
    pub kind: String,
    pub subject: Subject,
    pub why: String,
    pub remedy: String,
    /// Whether the repair can do it, or somebody has to decide.
    pub fixable: bool,
}

impl Finding {
    /// Upkeep is nothing that is wrong.
    pub fn is_damage(&self) -> bool {
        self.kind == "damage"
    }
}

#[derive(Debug, Deserialize)]
pub struct Subject {
    #[serde(rename = "type")]
    pub kind: String,
    pub id: String,
}

impl Subject {
    /// `run 01ARZ3NDEKTSV4RRFFQ69G5FAV`
    pub fn line(&self) -> String {
        format!("{} {}", self.kind, self.id)
    }
}

/// Something that cannot be told yet.
#[derive(Debug, Deserialize)]
pub struct Unsure {
    pub subject: Subject,
    pub until: String,
    #[serde(default)]
    pub in_ms: u64,
}
