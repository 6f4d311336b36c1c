use crate::{Open, RunFailureReason, Stats, Time};
use conveyor_domain::{IngestStatus, JobId, JobStatus, Params, PauseCode, RunId, RunStatus, Trigger, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    pub run_id: RunId,
    pub job_id: JobId,
    pub run_sequence: u32,
    pub status: Open<RunStatus>,
    pub trigger: Open<Trigger>,
    /// The run whose tasks it took over, if it is a rerun.
    pub rerun_of: Option<RunId>,
    /// Parameters of this run alone, which win over those of the job and of its tasks. Values of headers are not shown.
    pub zenrows_params: Option<Params>,
    pub stats: Stats,
    pub last_batch_received: bool,
    pub pause_state: Option<Open<PauseState>>,
    pub pause_reason: Option<PauseReason>,
    pub ingest_status: Option<Open<IngestStatus>>,
    pub created_at: Time,
    pub updated_at: Time,
    pub failure_reason: Option<Open<RunFailureReason>>,
    pub failure_detail: Option<String>,
}

impl Run {
    /// Whether the run does not change its status any more.
    pub fn is_over(&self) -> bool {
        self.status.known().is_some_and(|status| status.is_terminal())
    }

    /// Whether it waits for a caller to resume it.
    pub fn is_paused(&self) -> bool {
        self.pause_state.as_ref().is_some_and(|state| *state == PauseState::Paused) && !self.is_over()
    }

    /// Whether its list is still being read.
    pub fn is_ingesting(&self) -> bool {
        self.ingest_status.as_ref().is_some_and(|status| *status == IngestStatus::Pending)
    }
}

words! {
    #[derive(JsonSchema)]
    #[schemars(inline)]
    pub enum PauseState as json {
        Paused = "paused",
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PauseReason {
    pub code: Open<PauseCode>,
    pub detail: String,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Runs {
    pub runs: Vec<Run>,
    pub next_cursor: Option<String>,
}

/// The answer to a rerun.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Rerun {
    pub job_id: JobId,
    pub status: Open<JobStatus>,
    pub latest_run: Run,
    /// Left out for the first run of a scheduled job.
    pub rerun_of: Option<RunId>,
    pub retried_tasks: u32,
    pub inherited_tasks: u32,
    /// False if a list is read that nobody has counted: there may be more tasks than the two numbers say.
    pub total_is_final: bool,
}
