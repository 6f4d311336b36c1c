//! One execution of a job, and what has been counted of it.

use crate::job::failure::cut;
use crate::{AccountFault, FailureClass, JobId, ListFault, Params, RunId, Spend, Timestamp, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

crate::words! {
    /// `running`: its tasks are worked on, or wait for it. `pending`: nothing is left to do, and its open job may get
    /// more. The others are ends: `completed`, every task has ended, whether it was successful or failed; `stopped`,
    /// it was ended by a request; `failed`, it could not go on at all, and `failure_reason` says why; `deleted`, it
    /// is being removed.
    #[derive(Hash, JsonSchema)]
    pub enum RunStatus as json {
        Running = "running",
        Pending = "pending",
        Completed = "completed",
        Stopped = "stopped",
        Failed = "failed",
        Deleted = "deleted",
    }
}

impl RunStatus {
    pub fn is_terminal(self) -> bool {
        match self {
            RunStatus::Running | RunStatus::Pending => false,
            RunStatus::Completed | RunStatus::Stopped | RunStatus::Failed | RunStatus::Deleted => true,
        }
    }
}

/// Why a whole run failed: never because of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum FailureReason {
    Account(AccountFault),
    List(ListFault),
}

impl FailureReason {
    pub fn as_str(self) -> &'static str {
        match self {
            FailureReason::Account(fault) => fault.as_str(),
            FailureReason::List(fault) => fault.as_str(),
        }
    }
}

crate::words! {
    // The words of the production service, and one for everything about a list: its clients know no others.
    #[derive(JsonSchema)]
    #[schemars(inline)]
    pub enum RunFailureReason as json {
        InsufficientCredits = "insufficient_credits",
        SubscriptionInactive = "subscription_inactive",
        ApiKeyCapReached = "api_key_cap_reached",
        IngestFailed = "ingest_failed",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFailure {
    pub reason: FailureReason,
    pub detail: String,
}

impl RunFailure {
    /// The reason that callers get.
    pub fn shown(&self) -> RunFailureReason {
        match self.reason {
            FailureReason::Account(AccountFault::InsufficientCredits) => {
                RunFailureReason::InsufficientCredits
            }
            FailureReason::Account(AccountFault::SubscriptionInactive) => {
                RunFailureReason::SubscriptionInactive
            }
            FailureReason::Account(AccountFault::ApiKeyCapReached) => RunFailureReason::ApiKeyCapReached,
            FailureReason::List(_) => RunFailureReason::IngestFailed,
        }
    }

    /// What callers get beside it: of a list it begins with the code that says what is wrong with it.
    pub fn cause(&self) -> Cow<'_, str> {
        match self.reason {
            FailureReason::Account(_) => Cow::Borrowed(&self.detail),
            FailureReason::List(fault) => {
                let cause = format!("{fault}: {}", self.detail);
                Cow::Owned(cut(&cause, limits::FAILURE_DETAIL_MAX_CHARS).to_owned())
            }
        }
    }
}

crate::words! {
    /// Whether the tasks of a list are all there: `pending`, it is still read; `done`, they are. A run whose tasks
    /// were written on the request has none.
    #[derive(JsonSchema)]
    pub enum IngestStatus as json {
        Pending = "pending",
        Done = "done",
    }
}

crate::words! {
    /// What is stored of a run beyond its row.
    #[derive(Default)]
    pub enum Storage {
        #[default]
        Kept = "kept",
        /// Its tasks and results were removed because of their age. What was counted stays.
        Expired = "expired",
        /// It was deleted, and everything of it removed. The row is left so that nothing of it comes back.
        Removed = "removed",
    }
}

impl Storage {
    /// Whether a run in this state can come to that.
    pub fn may_be_of(self, status: RunStatus) -> bool {
        match (self, status) {
            (Storage::Removed, RunStatus::Deleted) => true,
            (Storage::Expired, RunStatus::Completed | RunStatus::Stopped | RunStatus::Failed) => true,
            (Storage::Kept | Storage::Expired | Storage::Removed, _) => false,
        }
    }
}

crate::words! {
    /// What set a run in motion.
    #[derive(Default, JsonSchema)]
    #[schemars(inline)]
    pub enum Trigger as json {
        /// A submit or a rerun.
        #[default]
        Manual = "manual",
        /// A schedule.
        Scheduled = "scheduled",
    }
}

impl Trigger {
    fn is_manual(&self) -> bool {
        *self == Trigger::Manual
    }
}

crate::words! {
    /// `failure_ratio`: more of its tasks failed than `max_failure_ratio` allows.
    #[derive(JsonSchema)]
    pub enum PauseCode as json {
        FailureRatio = "failure_ratio",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseReason {
    pub code: PauseCode,
    pub detail: String,
}

/// How many tasks a run will have, as far as it is known while they are ingested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    pub tasks: u32,
    /// Otherwise it is the least that is known.
    pub exact: bool,
}

/// The total of a run as readers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownTotal {
    pub total: u32,
    /// Nothing more is known to come.
    pub is_final: bool,
}

/// What else is kept of a run, as one JSON document: a field that is added has a default, and is left out where it says it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunDoc {
    /// Nothing if somebody asked for the pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<PauseReason>,
    /// What workers had counted when it was last resumed: the breaker looks at what came after that.
    #[serde(skip_serializing_if = "Counts::is_zero")]
    pub breaker_from: Counts,
    #[serde(skip_serializing_if = "Trigger::is_manual")]
    pub trigger: Trigger,
    /// The run that it replays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rerun_of: Option<RunId>,
    /// Parameters that win over those of the job and of its tasks.
    #[serde(skip_serializing_if = "Params::is_empty")]
    pub overrides: Params,
    /// Tasks that were copied from another run with their ends: no worker counts them. Absolute, and part of the total.
    #[serde(skip_serializing_if = "Counts::is_zero")]
    pub inherited: Counts,
    /// What readers are shown while its tasks are ingested. Nothing is decided by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<Expected>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub id: RunId,
    pub job: JobId,
    pub sequence: u32,
    pub status: RunStatus,
    /// Tasks accepted so far.
    pub total: u32,
    /// The index that the next added task gets. Equal to `total` unless an addition was given up half way.
    pub next_index: u32,
    /// No more tasks will come.
    pub latched: bool,
    pub ingest: Option<IngestStatus>,
    /// The run whose id seeds the ids of its tasks: itself, or the first run that it replays.
    pub id_seed: RunId,
    pub failure: Option<RunFailure>,
    /// Nothing more is started until it is resumed. What is in flight goes on.
    pub paused: bool,
    /// Runs whose results some of its tasks point to.
    pub sources: Vec<RunId>,
    pub storage: Storage,
    pub doc: RunDoc,
    pub created: Timestamp,
    pub updated: Timestamp,
}

impl Run {
    /// What is done of it: what workers counted, and what it inherited.
    pub fn counted(&self, by_workers: Counts) -> Counts {
        by_workers.plus(self.doc.inherited)
    }

    /// Whether another run of its job has to wait for it: it has not ended, or its list is still read. Nobody reads the list
    /// of one that was deleted.
    pub fn goes_on(&self) -> bool {
        let read = self.is_ingesting() && self.status != RunStatus::Deleted;
        !self.status.is_terminal() || read
    }

    pub fn is_ingesting(&self) -> bool {
        self.ingest == Some(IngestStatus::Pending)
    }

    /// Whether that run has to stay for its sake: some of its tasks have their results there, or its tasks are still read
    /// from there.
    pub fn needs(&self, run: RunId) -> bool {
        let kept = self.storage == Storage::Kept && self.status != RunStatus::Deleted;
        let reads = self.is_ingesting() && self.doc.rerun_of == Some(run);
        let points = self.sources.contains(&run) && (self.is_ingesting() || !self.doc.inherited.is_zero());
        kept && self.id != run && (reads || points)
    }

    /// Whether it is known for certain how many tasks it will have, before they are all there.
    pub fn is_counted(&self) -> bool {
        self.doc.expected.is_some_and(|expected| expected.exact)
    }

    /// Its total for readers. While its tasks are ingested, `completed` stays below a total that is not final, so that nobody
    /// who waits for the two to be equal takes it for done.
    pub fn shown_total(&self, stats: &RunStats) -> ShownTotal {
        let RunStats { total, counts, .. } = stats;
        if !self.is_ingesting() || self.status.is_terminal() {
            return ShownTotal { total: *total, is_final: true };
        }
        match self.doc.expected {
            // A list without a task fails its run: 0 is what nobody must wait for.
            Some(Expected { tasks, exact: true }) if tasks >= (*total).max(1) => {
                ShownTotal { total: tasks, is_final: true }
            }
            least => {
                let least = least.map_or(0, |expected| expected.tasks);
                let more = counts.completed().saturating_add(1);
                ShownTotal { total: (*total).max(least).max(more), is_final: false }
            }
        }
    }

    /// Whether all that there will be is done, for now. While a list is read, more is to come, whatever the counts say.
    pub fn is_drained(&self, counts: &Counts) -> bool {
        !self.is_ingesting() && counts.completed() == self.total
    }
}

/// Sums over the counter rows of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub successful: u32,
    pub failed: [u32; FailureClass::ALL.len()],
}

impl Counts {
    pub fn add_failed(&mut self, class: FailureClass) {
        self.failed[class as usize] += 1;
    }

    pub fn failed_total(&self) -> u32 {
        self.failed.iter().fold(0, |sum: u32, n| sum.saturating_add(*n))
    }

    pub fn completed(&self) -> u32 {
        self.successful.saturating_add(self.failed_total())
    }

    pub fn is_zero(&self) -> bool {
        self.completed() == 0
    }

    /// Of two counts of the same tasks, at different times, the later.
    #[must_use]
    pub fn max(mut self, other: Counts) -> Counts {
        self.successful = self.successful.max(other.successful);
        for (mine, theirs) in self.failed.iter_mut().zip(other.failed) {
            *mine = (*mine).max(theirs);
        }
        self
    }

    /// What is left without those. Counts can be corrected downwards.
    #[must_use]
    pub fn minus(mut self, other: Counts) -> Counts {
        self.successful = self.successful.saturating_sub(other.successful);
        for (mine, theirs) in self.failed.iter_mut().zip(other.failed) {
            *mine = mine.saturating_sub(theirs);
        }
        self
    }

    #[must_use]
    pub fn plus(mut self, other: Counts) -> Counts {
        self.successful = self.successful.saturating_add(other.successful);
        for (mine, theirs) in self.failed.iter_mut().zip(other.failed) {
            *mine = mine.saturating_add(theirs);
        }
        self
    }
}

/// What a caller sees of a run's progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunStats {
    pub total: u32,
    pub counts: Counts,
    /// Of all attempts, those that were followed by another too.
    pub spend: Spend,
}

impl RunStats {
    /// As readers get them: never more done than there is. Counters or a total that damage made contradict each other are cut
    /// to fit, successes first: nothing is claimed that may not be there.
    pub fn shown(mut self) -> RunStats {
        let mut room = self.total;
        for failed in &mut self.counts.failed {
            *failed = (*failed).min(room);
            room -= *failed;
        }
        self.counts.successful = self.counts.successful.min(room);
        self
    }

    /// Whether they cannot be true: more is done than there is.
    pub fn is_inconsistent(&self) -> bool {
        u64::from(self.counts.successful) + self.counts.failed.iter().map(|n| u64::from(*n)).sum::<u64>()
            > u64::from(self.total)
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
