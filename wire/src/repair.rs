//! What repairs and audits say (SPEC 6.14, 6.17).

use crate::{Open, Run, Time};
use conveyor_domain::repair::{Kind, ListCounts, REPAIRS, ResultCounts, SubjectType};
use conveyor_domain::{FailureClass, JobId, TaskId, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::borrow::Cow;
use std::collections::BTreeMap;

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Subject {
    #[serde(rename = "type")]
    pub kind: Open<SubjectType>,
    pub id: String,
    pub job_id: Option<JobId>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    #[schemars(extend("enum" = REPAIRS))]
    pub repair: Cow<'static, str>,
    pub kind: Open<Kind>,
    pub subject: Subject,
    pub why: String,
    pub remedy: String,
    /// Whether the repair can do something about it.
    pub fixable: bool,
}

/// What cannot be told yet.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Unsure {
    pub subject: Subject,
    pub until: Time,
    /// For whoever has another clock.
    pub in_ms: u64,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Reconciled {
    pub at: Time,
    pub dry_run: bool,
    pub findings: Vec<Treated>,
    pub unsure: Vec<Unsure>,
    pub errors: Vec<RepairError>,
    pub next: Option<String>,
}

/// A finding, and what became of it.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Treated {
    #[serde(flatten)]
    pub finding: Finding,
    pub outcome: Open<Outcome>,
    /// How many things were changed.
    pub changed: Option<u64>,
    pub error: Option<String>,
}

words! {
    #[derive(JsonSchema)]
    #[schemars(inline)]
    pub enum Outcome as json {
        Seen = "seen",
        Fixed = "fixed",
        Gone = "gone",
        NeedsOperator = "needs_operator",
        Failed = "failed",
    }
}

/// A repair that could not look.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RepairError {
    #[schemars(extend("enum" = REPAIRS))]
    pub repair: Cow<'static, str>,
    pub error: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RowCounts {
    pub pending: u32,
    pub processing: u32,
    pub successful: u32,
    pub failed: u32,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("propertyNames" = {"enum": FailureClass::ALL.map(FailureClass::as_str)}))]
    pub failure_reasons: BTreeMap<Cow<'static, str>, u32>,
    /// Failed ones that do not say why.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unclassified: u32,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// As they are stored: a counter that was damaged can be anything.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Counters {
    pub successful: i64,
    pub failed: i64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("propertyNames" = {"enum": FailureClass::ALL.map(FailureClass::as_str)}))]
    pub failure_reasons: BTreeMap<Cow<'static, str>, i64>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Audit {
    pub at: Time,
    pub job_id: JobId,
    pub run: Run,
    pub agrees: bool,
    pub list: Option<ListCounts>,
    pub total: u32,
    /// Left out where rows prove nothing any more.
    pub rows: Option<RowCounts>,
    pub counters: Counters,
    pub results: Option<ResultCounts>,
    pub disagreements: Vec<String>,
    pub findings: Vec<Finding>,
    pub unsure: Vec<Unsure>,
}

/// A body that is not what was written.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BodyFault {
    pub task_id: TaskId,
    pub fault: Open<conveyor_domain::BodyFault>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BodiesAudit {
    pub read: u32,
    pub bytes: u64,
    pub unverified: u32,
    pub at_fault: Vec<BodyFault>,
    pub more_at_fault: u32,
    pub next_cursor: Option<String>,
}
