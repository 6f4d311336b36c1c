use super::{Time, latest_run, rate};
use conveyor_domain::{
    DomainLimit, DomainLimits, FailureRatio, JobStatus, Timestamp, WebhookConfig, headers, limits,
};
use conveyor_store::port::JobView;
use conveyor_wire as wire;
use std::collections::BTreeMap;

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
        domain_limits: domain_limits(&spec.domain_limits),
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
pub(crate) fn domain_limits(limits: &DomainLimits) -> BTreeMap<String, wire::DomainLimit> {
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
