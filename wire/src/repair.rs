//! What repairs and audits say (SPEC 6.14, 6.17).

use crate::{Cursor, Open, Run, Time};
use conveyor_domain::repair::{Kind, ListCounts, REPAIRS, ResultCounts, SubjectType};
use conveyor_domain::{FailureClass, JobId, TaskId, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// What a finding is about.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Subject {
    /// What it is: a `run`, a `job`, an `upload`, a `dead_letter` or a `queue`.
    #[serde(rename = "type")]
    pub kind: Open<SubjectType>,
    /// Its id.
    #[schemars(extend("examples" = ["01KCX5T0Q8M3Z7C9D1F5G7H9J1"]))]
    pub id: String,
    pub job_id: Option<JobId>,
}

/// Something that a repair would change.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Who found it. Damage: `dead_letters`, `stalled_ingest`, `unsent_refs`, `missing_refs`, `wrong_counters`,
    /// `lost_completion`, `abandoned_submits`, `lost_notices`, `damaged_rows`. Upkeep: `due_schedules`,
    /// `scheduled_lists`, `ended_queues`, `deleted_runs`, `deleted_jobs`, `leftovers`, `expired_runs`,
    /// `expired_uploads`.
    #[schemars(extend("enum" = REPAIRS))]
    pub repair: Cow<'static, str>,
    /// `damage`: something is not what it should be. `upkeep`: something is past its time.
    pub kind: Open<Kind>,
    pub subject: Subject,
    /// Why it is so.
    #[schemars(extend("examples" = ["of 2 tasks, the rows say 2 successful; the counters say 1 successful"]))]
    pub why: String,
    /// What is done about it; or, if a repair can do nothing, what a person can do.
    #[schemars(extend("examples" = ["adds 1 successful to the counters"]))]
    pub remedy: String,
    /// Whether the repair can do something about it.
    pub fixable: bool,
}

/// What cannot be decided yet.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Unsure {
    pub subject: Subject,
    /// Until when.
    pub until: Time,
    /// For a client with another clock.
    pub in_ms: u64,
}

/// What was found, and what became of it.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [
    {"at": "2026-01-01T00:00:05.250Z", "dry_run": true, "errors": [], "findings": [{"fixable": true, "kind":
    "damage", "outcome": "seen", "remedy": "adds 1 successful to the counters", "repair": "wrong_counters",
    "subject": {"id": "01KCX5T0Q8M3Z7C9D1F5G7H9J1", "job_id": "01KCX5T0Q8H2V4M6N8P0R2S4T6", "type": "run"},
    "why": "of 2 tasks, the rows say 2 successful; the counters say 1 successful"}], "unsure": []}
]))]
pub struct Reconciled {
    pub at: Time,
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// What a repair would change.
    pub findings: Vec<Treated>,
    /// What cannot be decided yet.
    pub unsure: Vec<Unsure>,
    /// Repairs that could not look.
    pub errors: Vec<RepairError>,
    /// If more is left: to be sent as `from`.
    pub next: Option<String>,
}

/// A finding, and what became of it.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Treated {
    #[serde(flatten)]
    pub finding: Finding,
    /// What became of it. `seen`: a dry run, nothing was tried. `fixed`. `gone`: another process was quicker.
    /// `needs_operator`: nothing that a repair could do. `failed`: it did not work this time; `error` says why.
    pub outcome: Open<Outcome>,
    /// How many things were changed.
    pub changed: Option<u64>,
    /// Why it failed.
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
    /// Who found it. Damage: `dead_letters`, `stalled_ingest`, `unsent_refs`, `missing_refs`, `wrong_counters`,
    /// `lost_completion`, `abandoned_submits`, `lost_notices`, `damaged_rows`. Upkeep: `due_schedules`,
    /// `scheduled_lists`, `ended_queues`, `deleted_runs`, `deleted_jobs`, `leftovers`, `expired_runs`,
    /// `expired_uploads`.
    #[schemars(extend("enum" = REPAIRS))]
    pub repair: Cow<'static, str>,
    /// Why it failed.
    pub error: String,
}

/// The rows of tasks, by state.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"failed": 0, "pending": 0, "processing": 0, "successful": 2}]))]
pub struct RowCounts {
    /// Those that wait.
    pub pending: u32,
    /// Those that are worked on.
    pub processing: u32,
    /// Tasks that have a result.
    pub successful: u32,
    /// Tasks that failed for good.
    pub failed: u32,
    /// Failed tasks by class.
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
#[schemars(extend("examples" = [{"failed": 0, "successful": 2}]))]
pub struct Counters {
    /// Tasks that have a result.
    pub successful: i64,
    /// Tasks that failed for good.
    pub failed: i64,
    /// Failed tasks by class.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("propertyNames" = {"enum": FailureClass::ALL.map(FailureClass::as_str)}))]
    pub failure_reasons: BTreeMap<Cow<'static, str>, i64>,
}

/// What is stored of a run, counted against each other.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Audit {
    pub at: Time,
    pub job_id: JobId,
    /// The run as it is now.
    pub run: Run,
    /// Whether everything that was counted agrees.
    pub agrees: bool,
    /// Of a staged list: its records.
    pub list: Option<ListCounts>,
    /// How many tasks there are.
    pub total: u32,
    /// Left out where rows prove nothing any more.
    pub rows: Option<RowCounts>,
    /// The counters of all workers, summed as they are stored.
    pub counters: Counters,
    /// Bodies of successful tasks, if they were looked for.
    pub results: Option<ResultCounts>,
    /// What does not agree, in sentences.
    pub disagreements: Vec<String>,
    /// What a repair would change.
    pub findings: Vec<Finding>,
    /// What cannot be decided yet.
    pub unsure: Vec<Unsure>,
}

/// A body that is not what was written.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BodyFault {
    pub task_id: TaskId,
    /// What is wrong with a stored body. Reading it again does not help.
    pub fault: Open<conveyor_domain::BodyFault>,
}

/// Bodies of a run that were read, and those that are not what was written.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BodiesAudit {
    /// Bodies that were read.
    pub read: u32,
    /// How many bytes they have together.
    pub bytes: u64,
    /// Bodies without a checksum, which earlier versions stored: only their lengths were verified.
    pub unverified: u32,
    /// Tasks whose bodies are not what was written, the first of this page.
    pub at_fault: Vec<BodyFault>,
    /// How many more there are in this page.
    pub more_at_fault: u32,
    #[schemars(with = "Option<Cursor>")]
    pub next_cursor: Option<String>,
}
