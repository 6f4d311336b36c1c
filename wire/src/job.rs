use crate::{DomainLimit, Open, Rate, Run, Time, Webhook};
use conveyor_domain::{
    Format, JobId, JobStatus, Metadata, Params, RetryChoice, Schedule, ScheduleState, words,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// A job. Its limits are ours; the rest is what the batch client knows.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Job {
    pub job_id: JobId,
    #[serde(rename = "type")]
    pub kind: Open<JobType>,
    pub status: Open<JobStatus>,
    pub format: Open<Format>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub zenrows_params: Params,
    pub external_id: Option<String>,
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: Metadata,
    pub max_inflight: u32,
    pub rate_limit: Option<Rate>,
    #[serde(default, skip_serializing_if = "RetryChoice::is_default")]
    pub retry: RetryChoice,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub domain_limits: BTreeMap<String, DomainLimit>,
    pub max_failure_ratio: Option<f64>,
    pub result_ttl_days: u32,
    pub schedule: Option<Schedule>,
    pub next_scheduled_run: Option<Time>,
    pub schedule_state: Option<Open<ScheduleState>>,
    pub webhook: Option<Webhook>,
    pub latest_run: Option<Run>,
    pub created_at: Time,
    pub updated_at: Time,
}

words! {
    #[derive(JsonSchema)]
    pub enum JobType as json {
        Regular = "regular",
        Scheduled = "scheduled",
    }
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Jobs {
    pub jobs: Vec<Job>,
    pub next_cursor: Option<String>,
}

/// The answer to a submit.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Submitted {
    pub job_id: JobId,
    pub status: Open<JobStatus>,
    /// None of a scheduled job: its first run is made when it fires.
    pub latest_run: Option<Run>,
    pub accepted_tasks: usize,
    /// Whether these are all that there will be: never of an open job. Left out where they are written already.
    pub total_is_final: Option<bool>,
    pub webhook: Option<Webhook>,
}

/// The answer to an addition.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Added {
    pub accepted_tasks: usize,
    pub job_status: Open<JobStatus>,
    pub latest_run: Run,
}
