use super::Time;
use super::limits::{DomainLimitJson, DomainLimitsJson, RateJson};
use super::run::{RunJson, is_there};
use super::webhook::WebhookJson;
use conveyor_domain::{
    FailureRatio, Format, JobId, JobStatus, Metadata, Params, RetryChoice, Schedule, ScheduleState,
    Timestamp, headers, limits,
};
use conveyor_store::port::JobView;
use schemars::JsonSchema;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A job. Its limits are ours; the rest is what the batch client knows.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct JobJson<'a> {
    job_id: JobId,
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["regular", "scheduled"]))]
    kind: &'static str,
    status: JobStatus,
    format: Format,
    #[serde(skip_serializing_if = "is_empty")]
    zenrows_params: Cow<'a, Params>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    max_failure_ratio: Option<f64>,
    result_ttl_days: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule: Option<&'a Schedule>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_scheduled_run: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule_state: Option<ScheduleState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    webhook: Option<WebhookJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latest_run: Option<RunJson<'a>>,
    created_at: Time,
    updated_at: Time,
}

fn is_empty(params: &Params) -> bool {
    params.is_empty()
}

impl<'a> JobJson<'a> {
    /// As it is at that moment: what fires next of a schedule that is paused depends on when one asks.
    pub fn of(JobView { job, latest }: &'a JobView, now: Timestamp) -> Self {
        let schedule = job.spec.schedule.as_ref();
        // Nothing of a job that is deleted fires any more, and it is in no state to be turned to another.
        let live = schedule.filter(|_| job.status != JobStatus::Deleted);
        JobJson {
            job_id: job.id,
            kind: if schedule.is_some() { "scheduled" } else { "regular" },
            status: job.status,
            format: job.spec.format,
            zenrows_params: headers::hidden(&job.spec.params),
            external_id: job.spec.external_id.as_deref(),
            name: job.spec.name.as_deref(),
            metadata: &job.spec.metadata,
            max_inflight: job.spec.max_inflight,
            rate_limit: job.spec.rate.map(RateJson::from),
            retry: job.spec.retry,
            domain_limits: DomainLimitsJson(&job.spec.domain_limits),
            max_failure_ratio: job.spec.max_failure_ratio.map(FailureRatio::as_f64),
            result_ttl_days: job.spec.result_ttl_days.unwrap_or(limits::RESULT_TTL_DAYS),
            schedule: schedule.map(|schedule| &schedule.schedule),
            next_scheduled_run: live.and_then(|schedule| schedule.next_shown(now)).map(Time),
            schedule_state: live.map(|schedule| schedule.state),
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
    /// None of a scheduled job: its first run is made when it fires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_run: Option<RunJson<'a>>,
    pub accepted_tasks: usize,
    /// Whether these are all that there will be: never of an open job. Left out where they are written already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_is_final: Option<bool>,
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
