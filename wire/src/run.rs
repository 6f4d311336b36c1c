use crate::{Cursor, Open, RunFailureReason, Stats, Time};
use conveyor_domain::{IngestStatus, JobId, JobStatus, Params, PauseCode, RunId, RunStatus, Trigger, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// One execution of a job.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    pub run_id: RunId,
    pub job_id: JobId,
    /// Which run of its job it is, from 1.
    pub run_sequence: u32,
    /// How far it has got.
    #[schemars(extend("examples" = ["completed"]))]
    pub status: Open<RunStatus>,
    /// What set a run in motion.
    pub trigger: Open<Trigger>,
    /// The run whose tasks it took over, if it is a rerun.
    pub rerun_of: Option<RunId>,
    /// Parameters of this run alone, which win over those of the job and of its tasks. Values of headers are not
    /// shown.
    #[schemars(extend("examples" = [{"js_render": "true"}]))]
    pub zenrows_params: Option<Params>,
    pub stats: Stats,
    /// Whether no more tasks will come.
    pub last_batch_received: bool,
    /// `paused` while it is; left out otherwise.
    pub pause_state: Option<Open<PauseState>>,
    /// Why it was paused, if it was not asked for.
    pub pause_reason: Option<PauseReason>,
    /// Of a run whose list is, or was, read after the submit: whether all its tasks are there.
    pub ingest_status: Option<Open<IngestStatus>>,
    pub created_at: Time,
    pub updated_at: Time,
    /// Why the whole run failed. `insufficient_credits`, `subscription_inactive`, `api_key_cap_reached`: the gateway
    /// refused the account. `ingest_failed`: its list cannot be taken; `failure_detail` begins with the code that
    /// says why.
    pub failure_reason: Option<Open<RunFailureReason>>,
    /// The same, for people.
    #[schemars(extend("examples" = ["The gateway refused the account."]))]
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

/// Why a run was paused without a request.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PauseReason {
    /// Why, as a stable word for programs.
    pub code: Open<PauseCode>,
    /// The same, as a sentence for people.
    #[schemars(extend("examples" = ["11 of 20 tasks failed, more than 0.5 of them."]))]
    pub detail: String,
}

/// A page of runs.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Runs {
    pub runs: Vec<Run>,
    #[schemars(with = "Option<Cursor>")]
    pub next_cursor: Option<String>,
}

/// The answer to a rerun: the new run, and how many tasks it repeats.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Rerun {
    pub job_id: JobId,
    /// The state of the job.
    #[schemars(extend("examples" = ["closed"]))]
    pub status: Open<JobStatus>,
    /// The latest run of the job.
    pub latest_run: Run,
    /// Left out for the first run of a scheduled job.
    pub rerun_of: Option<RunId>,
    /// Tasks that are repeated.
    pub retried_tasks: u32,
    /// Tasks that were inherited with their results.
    pub inherited_tasks: u32,
    /// False if a list is read that nobody has counted: there may be more tasks than the two numbers say.
    pub total_is_final: bool,
}
