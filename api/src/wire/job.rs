//! A job between the domain and the wire: its settings as they are submitted, and as they are shown.

use super::limits::{domain_limits, max_failure_ratio, rate_limit, retry};
use crate::problem::{ApiError, Result};
use crate::show::{Time, latest_run, rate};
use conveyor_domain::job::task_input::{Invalid, parse_metadata};
use conveyor_domain::{
    DomainLimit, DomainLimits, FailureRatio, Format, JobSpec, JobStatus, Metadata, ParamPolicy, Params,
    Timestamp, WebhookConfig, headers, limits, params as rules,
};
use conveyor_store::port::JobView;
use conveyor_wire::{self as wire, MetadataBody, SubmitJob, ZenRowsParams};
use serde_json::Value;
use std::collections::BTreeMap;

/// The settings of a submit. Its tasks, list, schedule and task token are not among them.
pub(super) fn spec<T, S>(body: SubmitJob<T, S>, policy: ParamPolicy) -> Result<JobSpec> {
    let params = params(body.zenrows_params, policy)?;
    // What contradicts itself here would make every task invalid: one complaint instead of thousands.
    rules::check_merged(&params, false).map_err(|invalid| ApiError::job_params(&invalid))?;
    let webhook = body.webhook.map(|hook| WebhookConfig::new(hook.url, hook.signature.unwrap_or(false)));
    Ok(JobSpec {
        format: Format::of(&params),
        params,
        external_id: body.external_id.map(|id| id.0),
        name: body.name.map(|name| name.0),
        metadata: metadata(body.metadata)?,
        max_inflight: body.max_inflight.map_or(limits::MAX_INFLIGHT_DEFAULT, |most| most.0),
        rate: rate_limit(body.rate_limit)?,
        retry: retry(body.retry)?,
        domain_limits: domain_limits(body.domain_limits)?,
        max_failure_ratio: max_failure_ratio(body.max_failure_ratio)?,
        result_ttl_days: body.result_ttl_days.map(|days| days.0),
        webhook,
        ..JobSpec::default()
    })
}

pub(super) fn params(body: Option<ZenRowsParams>, policy: ParamPolicy) -> Result<Params> {
    let params = Value::Object(body.unwrap_or_default().0);
    rules::parse(&params, policy).map_err(|invalid| ApiError::job_params(&invalid))
}

fn metadata(body: Option<MetadataBody>) -> Result<Metadata> {
    let describe = |e: Invalid| ApiError::invalid(format!("`metadata`: {}: {}", e.reason.as_str(), e.value));
    parse_metadata(&body.unwrap_or_default().0.into_iter().collect()).map_err(describe)
}

/// As it is at that moment: what fires next of a schedule that is paused depends on when one asks.
pub(crate) fn job(view: &JobView, now: Timestamp) -> wire::Job {
    let job = &view.job;
    let spec = &job.spec;
    let schedule = spec.schedule.as_ref();
    // Nothing of a job that is deleted fires any more, and it is in no state to be turned to another.
    let live = schedule.filter(|_| job.status != JobStatus::Deleted);
    let kind = if schedule.is_some() { wire::JobType::Scheduled } else { wire::JobType::Regular };
    wire::Job {
        job_id: job.id,
        kind: kind.into(),
        status: job.status.into(),
        format: spec.format.into(),
        zenrows_params: headers::hidden(&spec.params).into_owned(),
        external_id: spec.external_id.clone(),
        name: spec.name.clone(),
        metadata: spec.metadata.clone(),
        max_inflight: spec.max_inflight,
        rate_limit: spec.rate.map(rate),
        retry: spec.retry,
        domain_limits: shown_domain_limits(&spec.domain_limits),
        max_failure_ratio: spec.max_failure_ratio.map(FailureRatio::as_f64),
        result_ttl_days: spec.result_ttl_days.unwrap_or(limits::RESULT_TTL_DAYS),
        schedule: schedule.map(|schedule| schedule.schedule.clone()),
        next_scheduled_run: live.and_then(|schedule| schedule.next_shown(now)).map(Time),
        schedule_state: live.map(|schedule| schedule.state.into()),
        webhook: spec.webhook.as_ref().map(webhook),
        latest_run: latest_run(view),
        created_at: Time(job.created),
        updated_at: Time(job.updated),
    }
}

/// By name, as they are submitted.
pub(crate) fn shown_domain_limits(limits: &DomainLimits) -> BTreeMap<String, wire::DomainLimit> {
    let shown = |(name, DomainLimit { rate, max_inflight }): (&str, DomainLimit)| {
        let (per_second, burst) = rate.map(|rate| (rate.per_second(), rate.burst())).unzip();
        (name.to_owned(), wire::DomainLimit { per_second, burst, max_inflight })
    };
    limits.iter().map(shown).collect()
}

/// Without a secret.
pub(crate) fn webhook(hook: &WebhookConfig) -> wire::Webhook {
    let disabled = hook.disabled.as_ref();
    let disabled = disabled.map(|off| wire::Disabled { at: Time(off.at), reason: off.reason.clone() });
    wire::Webhook { url: hook.url.clone(), signature: hook.signature, disabled }
}
