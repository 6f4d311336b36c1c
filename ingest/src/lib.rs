//! The ingest role: staged lists become the tasks of their runs (SPEC 6.11).
//!
//! It knows the ports and how lists are decoded; never a backend, never another role. The log of a run's ingest is its only
//! record of progress: an ingester reads it, folds it, takes the next step and appends that it did. Any number of ingesters
//! may work on one list at once; each step is won by one of them.

mod attempt;
mod chunk;
mod control;
mod count;
mod intake;
mod read;
mod replay;
mod rows;
mod source;

pub use attempt::{End, Trouble};
pub use control::{handle, run};
pub use rows::RowsAgain;

use conveyor_domain::{Clock, Entropy, HeaderSeal, ParamPolicy, Quotas, TaskRules, WorkerId, limits};
use conveyor_store::Backend;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// What an operator decides about ingesting.
#[derive(Clone, Copy, Debug)]
pub struct IngestConfig {
    /// Long lists of one caller that this process reads at once, and as many short ones. All callers together: twice that.
    pub ingests_max: u32,
    /// A list up to this size is a short one.
    pub small_max_bytes: u64,
    /// Records that become one step.
    pub chunk_rows: u32,
    /// Records of one list.
    pub run_tasks_max: u32,
    pub list_max_bytes: u64,
    pub list_expanded_max_bytes: u64,
    /// Of lists that do not say what they were accepted under.
    pub rules: TaskRules,
    /// What callers may have of whom no operator said otherwise.
    pub quotas: Quotas,
    /// How long a control message that is worked on stays hidden without being extended.
    pub visibility: Duration,
}

impl Default for IngestConfig {
    fn default() -> Self {
        IngestConfig {
            ingests_max: limits::INGESTS_MAX,
            small_max_bytes: limits::INGEST_SMALL_MAX_BYTES,
            chunk_rows: limits::CHUNK_ROWS,
            run_tasks_max: limits::RUN_TASKS_MAX,
            list_max_bytes: limits::LIST_MAX_BYTES,
            list_expanded_max_bytes: limits::LIST_EXPANDED_MAX_BYTES,
            rules: TaskRules::strict(ParamPolicy::ZenRows),
            quotas: Quotas::default(),
            visibility: limits::VISIBILITY,
        }
    }
}

/// One incarnation of an ingester.
#[derive(Debug)]
pub struct Ingester {
    id: WorkerId,
    backend: Backend,
    clock: Arc<dyn Clock>,
    entropy: Entropy,
    config: IngestConfig,
    reports: AtomicU64,
    headers: Option<HeaderSeal>,
}

impl Ingester {
    pub fn new(backend: Backend, clock: Arc<dyn Clock>, entropy: &Entropy, config: IngestConfig) -> Ingester {
        let id = WorkerId::new(clock.now(), entropy);
        let entropy = entropy.fork();
        Ingester { id, backend, clock, entropy, config, reports: AtomicU64::new(0), headers: None }
    }

    /// Opens headers that the API sealed in a list, and seals those of the rows that it writes. Without it, rows are stored
    /// as they were read, and one with sealed headers is no task.
    #[must_use]
    pub fn sealing(mut self, headers: HeaderSeal) -> Ingester {
        self.headers = Some(headers);
        self
    }
}
