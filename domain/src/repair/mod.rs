//! What repairs and audits say, as data: the roles that find it, serve it and print it share these words (SPEC 6.14, 6.17).

pub mod damage;
pub mod dead_letter;
pub mod proof;

use crate::{
    BodyFault, FailureClass, JobId, LetterId, QueueName, RowCounts, Run, RunId, RunStats, Sums, Task, TaskId,
    Timestamp, UploadId, limits,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What repairs are called. The sweeper has them, and a test there holds it to these names.
pub const REPAIRS: [&str; 17] = [
    "due_schedules",
    "dead_letters",
    "unsent_refs",
    "stalled_ingest",
    "missing_refs",
    "wrong_counters",
    "lost_completion",
    "abandoned_submits",
    "scheduled_lists",
    "lost_notices",
    "ended_queues",
    "deleted_runs",
    "deleted_jobs",
    "leftovers",
    "expired_runs",
    "expired_uploads",
    "damaged_rows",
];

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    Run(JobId, RunId),
    Job(JobId),
    Upload(UploadId),
    Letter(LetterId),
    Queue(QueueName),
}

impl Subject {
    pub fn job(self) -> Option<JobId> {
        match self {
            Subject::Run(job, _) | Subject::Job(job) => Some(job),
            Subject::Upload(_) | Subject::Letter(_) | Subject::Queue(_) => None,
        }
    }

    pub fn kind(self) -> SubjectType {
        match self {
            Subject::Run(..) => SubjectType::Run,
            Subject::Job(_) => SubjectType::Job,
            Subject::Upload(_) => SubjectType::Upload,
            Subject::Letter(_) => SubjectType::DeadLetter,
            Subject::Queue(_) => SubjectType::Queue,
        }
    }
}

crate::words! {
    #[derive(JsonSchema)]
    #[schemars(inline)]
    pub enum SubjectType as json {
        Run = "run",
        Job = "job",
        Upload = "upload",
        DeadLetter = "dead_letter",
        Queue = "queue",
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Run(_, run) => write!(f, "{run}"),
            Subject::Job(job) => write!(f, "{job}"),
            Subject::Upload(upload) => write!(f, "{upload}"),
            Subject::Letter(letter) => write!(f, "{letter}"),
            Subject::Queue(queue) => write!(f, "{queue}"),
        }
    }
}

crate::words! {
    #[derive(JsonSchema)]
    #[schemars(inline)]
    pub enum Kind as json {
        /// Something was lost, or does not agree: it is not what it should be.
        Damage = "damage",
        /// Nothing is wrong: something is past its time, or no longer wanted.
        Upkeep = "upkeep",
    }
}

/// Something that a repair would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub repair: &'static str,
    pub kind: Kind,
    pub subject: Subject,
    /// Why it is so, from its rows and events.
    pub why: String,
    /// What the repair does about it; or, if it can do nothing, what somebody else can.
    pub remedy: String,
    pub fixable: bool,
}

/// What became of a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A dry run: nothing was tried.
    Seen,
    /// So many things were changed.
    Fixed(u64),
    /// It was gone when its turn came: somebody else was quicker.
    Gone,
    /// Nothing that a repair could do.
    NeedsOperator,
    /// It did not work this time.
    Failed(String),
}

/// What a reconciliation found and did; a part of it, if `next` says where to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reconciled {
    pub at: Timestamp,
    pub dry_run: bool,
    pub findings: Vec<(Finding, Outcome)>,
    /// What could not be told yet, with when it can: a queue that looks empty may only be late.
    pub unsure: Vec<(Subject, Timestamp)>,
    /// Repairs that could not look, with why.
    pub errors: Vec<(&'static str, String)>,
    pub next: Option<String>,
}

/// The records of a staged list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"accepted": 2, "rejected": 0, "whole": true}]))]
pub struct ListCounts {
    /// Records that became tasks.
    pub accepted: u32,
    /// Records that are not valid tasks.
    pub rejected: u32,
    /// Whether all of the list was read.
    pub whole: bool,
}

/// Bodies of successful tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"missing": 0, "present": 2}]))]
pub struct ResultCounts {
    /// Bodies that are there, or are empty and need no object.
    pub present: u32,
    /// Bodies that are not.
    pub missing: u32,
}

/// Everything that is stored of a run, counted (SPEC 6.14).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    pub at: Timestamp,
    pub job: JobId,
    pub run: Run,
    pub stats: RunStats,
    pub list: Option<ListCounts>,
    /// `None`: rows are past their time, or may be, so that they prove nothing.
    pub rows: Option<RowCounts>,
    pub counters: Sums,
    pub results: Option<ResultCounts>,
    /// Sentences, one for each two numbers that should be the same and are not.
    pub disagreements: Vec<String>,
    pub findings: Vec<Finding>,
    pub unsure: Vec<(Subject, Timestamp)>,
}

/// One page of an audit of bodies (SPEC 6.14).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BodiesAudit {
    pub read: u32,
    pub bytes: u64,
    /// Bodies without a checksum, of earlier versions: only their lengths were verified.
    pub unverified: u32,
    /// The first of those that are not what was written, with what is wrong.
    pub at_fault: Vec<(TaskId, BodyFault)>,
    pub more_at_fault: u32,
    /// The last task that was read, if more may follow.
    pub next: Option<TaskId>,
}

impl BodiesAudit {
    /// The body of a task was read.
    pub fn add(&mut self, task: &Task, fault: Option<BodyFault>) {
        let stored = task.result.iter().filter(|result| result.object.is_some());
        self.read += 1;
        // The length of a damaged row can be any.
        self.bytes = stored.clone().fold(self.bytes, |sum, result| sum.saturating_add(result.length));
        self.unverified += stored.map(|result| u32::from(result.crc32.is_none())).sum::<u32>();
        match fault {
            Some(fault) if self.at_fault.len() < limits::FAULTS_NAMED_MAX => {
                self.at_fault.push((task.id, fault));
            }
            Some(_) => self.more_at_fault += 1,
            None => {}
        }
    }
}

impl Audit {
    pub fn agrees(&self) -> bool {
        self.disagreements.is_empty()
    }
}

/// Failures by their class, those that there are.
pub fn by_class(failed: &[u32; FailureClass::ALL.len()]) -> impl Iterator<Item = (FailureClass, u32)> + '_ {
    FailureClass::ALL.into_iter().map(|class| (class, failed[class as usize])).filter(|(_, n)| *n > 0)
}
