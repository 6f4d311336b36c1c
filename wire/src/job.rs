use crate::{Cursor, DomainLimit, ExternalId, MetadataBody, Open, Rate, Run, Time, Webhook};
use conveyor_domain::{
    Format, JobId, JobStatus, Metadata, Params, RetryChoice, Schedule, ScheduleState, words,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// A job: what was submitted, and its latest run.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Job {
    pub job_id: JobId,
    /// `regular`: its run starts at the submit. `scheduled`: its runs start by a schedule.
    #[serde(rename = "type")]
    pub kind: Open<JobType>,
    /// Whether tasks can be added, or it is being removed.
    #[schemars(extend("examples" = ["closed"]))]
    pub status: Open<JobStatus>,
    /// The format of results: what the parameters make the gateway answer with.
    pub format: Open<Format>,
    /// What the gateway gets beside the URL, such as `js_render`, `premium_proxy`, `proxy_country`, `custom_headers`,
    /// `response_type`, `css_extractor`. A task's own win over the job's. Headers of the connection (`Host`,
    /// `Content-Length`, `Connection` and the like) are dropped from `custom_headers`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("examples" = [{"js_render": "true"}]))]
    pub zenrows_params: Params,
    #[schemars(with = "Option<ExternalId>")]
    pub external_id: Option<String>,
    /// A name for people.
    #[schemars(extend("examples" = ["nightly prices"]))]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "MetadataBody")]
    pub metadata: Metadata,
    /// How many tasks may be in flight at once.
    pub max_inflight: u32,
    pub rate_limit: Option<Rate>,
    #[serde(default, skip_serializing_if = "RetryChoice::is_default")]
    pub retry: RetryChoice,
    /// Limits by host; `*` stands for every other host.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("examples" = [{"example.com": {"burst": 2, "max_inflight": 4, "per_second": 2.0}}]))]
    pub domain_limits: BTreeMap<String, DomainLimit>,
    /// A run of which more than this part of the tasks fails is paused, and says why.
    pub max_failure_ratio: Option<f64>,
    /// For how many days results can be seen.
    pub result_ttl_days: u32,
    /// When the job runs.
    pub schedule: Option<Schedule>,
    /// When it fires next.
    pub next_scheduled_run: Option<Time>,
    pub schedule_state: Option<Open<ScheduleState>>,
    pub webhook: Option<Webhook>,
    /// The latest run of the job.
    pub latest_run: Option<Run>,
    pub created_at: Time,
    pub updated_at: Time,
}

words! {
    /// `regular`: it runs at once. `scheduled`: it runs by its `schedule`.
    #[derive(JsonSchema)]
    pub enum JobType as json {
        Regular = "regular",
        Scheduled = "scheduled",
    }
}

/// A page of jobs.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Jobs {
    pub jobs: Vec<Job>,
    #[schemars(with = "Option<Cursor>")]
    pub next_cursor: Option<String>,
}

/// The answer to a submit.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Submitted {
    pub job_id: JobId,
    /// Whether tasks can be added.
    #[schemars(extend("examples" = ["closed"]))]
    pub status: Open<JobStatus>,
    /// None of a scheduled job: its first run is made when it fires.
    pub latest_run: Option<Run>,
    /// How many tasks were accepted. Of a list that was not counted in time the least that is known, perhaps 0:
    /// `total_is_final` is false then, and for an open job, to which more can be added.
    pub accepted_tasks: usize,
    /// Whether these are all that there will be: never of an open job. Left out where they are written already.
    pub total_is_final: Option<bool>,
    pub webhook: Option<Webhook>,
}

/// The answer to an addition.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Added {
    /// How many tasks were accepted. Of a list that was not counted in time the least that is known, perhaps 0:
    /// `total_is_final` is false then, and for an open job, to which more can be added.
    pub accepted_tasks: usize,
    pub job_status: Open<JobStatus>,
    /// The latest run of the job.
    pub latest_run: Run,
}
