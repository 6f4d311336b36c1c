use super::Time;
use super::limits::{DomainLimitJson, DomainLimitsJson, RateJson};
use super::run::{RunJson, is_there};
use super::webhook::WebhookJson;
use conveyor_domain::job::Metadata;
use conveyor_domain::params::{Format, Params};
use conveyor_domain::retry::RetryChoice;
use conveyor_domain::{JobId, JobStatus, limits};
use conveyor_store::port::JobView;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// A job. Its limits are ours; the rest is what the batch client knows.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct JobJson<'a> {
    job_id: JobId,
    #[serde(rename = "type")]
    kind: &'static str,
    status: JobStatus,
    format: Format,
    #[serde(skip_serializing_if = "Params::is_empty")]
    zenrows_params: &'a Params,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    metadata: &'a Metadata,
    max_inflight: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_limit: Option<RateJson>,
    #[serde(skip_serializing_if = "RetryChoice::is_default")]
    retry: RetryChoice,
    #[serde(skip_serializing_if = "DomainLimitsJson::is_empty")]
    #[schemars(with = "BTreeMap<String, DomainLimitJson>")]
    domain_limits: DomainLimitsJson<'a>,
    result_ttl_days: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    webhook: Option<WebhookJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latest_run: Option<RunJson<'a>>,
    created_at: Time,
    updated_at: Time,
}

impl<'a> From<&'a JobView> for JobJson<'a> {
    fn from(JobView { job, latest }: &'a JobView) -> Self {
        JobJson {
            job_id: job.id,
            kind: "regular",
            status: job.status,
            format: job.spec.format,
            zenrows_params: &job.spec.params,
            external_id: job.spec.external_id.as_deref(),
            name: job.spec.name.as_deref(),
            metadata: &job.spec.metadata,
            max_inflight: job.spec.max_inflight,
            rate_limit: job.spec.rate.map(RateJson::from),
            retry: job.spec.retry,
            domain_limits: DomainLimitsJson(&job.spec.domain_limits),
            result_ttl_days: job.spec.result_ttl_days.unwrap_or(limits::RESULT_TTL_DAYS),
            webhook: job.spec.webhook.as_ref().map(WebhookJson::from),
            latest_run: is_there(&latest.run).then(|| latest.into()),
            created_at: Time(job.created),
            updated_at: Time(job.updated),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct JobsJson<'a> {
    pub jobs: Vec<JobJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// The answer to a submit.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SubmittedJson<'a> {
    pub job_id: JobId,
    pub status: JobStatus,
    pub latest_run: RunJson<'a>,
    pub accepted_tasks: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookJson<'a>>,
}

/// The answer to an addition.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AddedJson<'a> {
    pub accepted_tasks: usize,
    pub job_status: JobStatus,
    pub latest_run: RunJson<'a>,
}
