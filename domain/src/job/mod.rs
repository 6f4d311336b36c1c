//! The template that runs execute.

pub mod beside;
pub mod failure;
pub mod headers;
pub mod lifecycle;
pub mod params;
pub mod record;
pub mod rerun;
pub mod retention;
pub mod run;
pub mod spend;
mod start_run;
pub mod task;
pub mod task_input;
pub mod timeline;

use crate::dispatch::grant::Limits;
use crate::ingest::Source;
use crate::schedule::Template;
use crate::{
    CallerId, DomainLimits, FailureRatio, Format, JobId, JobSchedule, Params, Rate, RetryChoice, RunId,
    Sealed, Timestamp, WebhookConfig, limits,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

crate::words! {
    /// `open`: tasks can be added. `closed`: these are all. `deleted`: it is being removed.
    #[derive(Hash, JsonSchema)]
    pub enum JobStatus as json {
        Open = "open",
        Closed = "closed",
        Deleted = "deleted",
    }
}

pub type Metadata = BTreeMap<String, String>;

/// What a submit fixed. Stored as JSON: new fields need a default, so that old rows can still be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    pub format: Format,
    #[serde(default, skip_serializing_if = "Params::is_empty")]
    pub params: Params,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
    pub max_inflight: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Where it is silent, the worker's own policy holds.
    #[serde(default, skip_serializing_if = "RetryChoice::is_default")]
    pub retry: RetryChoice,
    #[serde(default, skip_serializing_if = "DomainLimits::is_empty")]
    pub domain_limits: DomainLimits,
    /// When more of its tasks fail, the run is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_failure_ratio: Option<FailureRatio>,
    /// Goes up whenever one of the limits changes.
    #[serde(default)]
    pub limits_revision: u32,
    /// Was submitted open: its first run took tasks until the last batch.
    #[serde(default)]
    pub submitted_open: bool,
    /// For how long its results can be seen. Where it is silent, the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_ttl_days: Option<u32>,
    /// Partitions of its task rows, fixed for life. Readers use this, never the configuration.
    pub task_shard_count: u32,
    /// Where the ends of its runs are told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookConfig>,
    /// What a state machine waits with for its first run, sealed for the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sfn_task_token: Option<Sealed>,
    /// The key that is forwarded to the gateway, sealed for this job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<Sealed>,
    /// When its runs are begun, if that is not up to its caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<JobSchedule>,
}

impl Default for JobSpec {
    fn default() -> Self {
        JobSpec {
            format: Format::Html,
            params: Params::default(),
            external_id: None,
            name: None,
            metadata: Metadata::new(),
            max_inflight: limits::MAX_INFLIGHT_DEFAULT,
            rate: None,
            retry: RetryChoice::default(),
            domain_limits: DomainLimits::default(),
            max_failure_ratio: None,
            limits_revision: 0,
            submitted_open: false,
            result_ttl_days: None,
            task_shard_count: 1,
            webhook: None,
            sfn_task_token: None,
            credential: None,
            schedule: None,
        }
    }
}

impl JobSpec {
    /// What workers are held to, as the job's budget knows it.
    pub fn limits(&self) -> Limits {
        Limits { revision: self.limits_revision, max_inflight: Some(self.max_inflight), rate: self.rate }
    }

    pub fn template_id(&self) -> Option<RunId> {
        self.schedule.as_ref().map(|schedule| schedule.template)
    }

    /// The list that every run of it reads anew, if it has a schedule and its tasks are in a list.
    pub fn list_of_runs(&self) -> Option<&Source> {
        self.schedule.as_ref()?.source.as_ref()
    }

    /// How long the document is that is stored of it.
    pub fn stored_bytes(&self) -> usize {
        // What cannot be written as JSON is refused by whoever writes it.
        serde_json::to_vec(self).map_or(0, |document| document.len())
    }

    /// The same with other limits.
    #[must_use]
    pub fn with(&self, change: &LimitsChange) -> JobSpec {
        let LimitsChange { max_inflight, rate, retry, domain_limits, max_failure_ratio } = change.clone();
        let mut next = self.clone();
        next.max_inflight = max_inflight.unwrap_or(next.max_inflight);
        next.rate = rate.unwrap_or(next.rate);
        next.retry = retry.unwrap_or(next.retry);
        next.domain_limits = domain_limits.unwrap_or(next.domain_limits);
        next.max_failure_ratio = max_failure_ratio.unwrap_or(next.max_failure_ratio);
        if next != *self {
            next.limits_revision += 1;
        }
        next
    }
}

/// What is to be different from now on. What is `None` stays; an inner `None` takes the limit away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitsChange {
    pub max_inflight: Option<u32>,
    pub rate: Option<Option<Rate>>,
    pub retry: Option<RetryChoice>,
    pub domain_limits: Option<DomainLimits>,
    pub max_failure_ratio: Option<Option<FailureRatio>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub id: JobId,
    pub caller: CallerId,
    pub spec: Arc<JobSpec>,
    pub status: JobStatus,
    pub latest_run: RunId,
    pub created: Timestamp,
    pub updated: Timestamp,
}

impl Job {
    /// What its runs are made of, if it has a schedule.
    pub fn template(&self) -> Option<Template> {
        let schedule = self.spec.schedule.as_ref()?;
        let (job, rows, created) = (self.id, schedule.rows.unwrap_or(0), self.created);
        Some(Template { id: schedule.template, job, rows, created })
    }
}
