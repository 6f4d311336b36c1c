use super::Time;
use conveyor_domain::access::quota::Used;
use conveyor_domain::{ApiKey, ApiKeyId, Opens, Quotas};
use conveyor_wire as wire;
use conveyor_wire::KeyKind;

/// `key`: the key itself, in the answer that makes it.
pub(crate) fn api_key(
    key_id: ApiKeyId,
    kept: ApiKey,
    own: Option<Quotas>,
    key: Option<String>,
) -> wire::ApiKey {
    let (kind, caller) = match kept.opens {
        Opens::Caller(caller) => (KeyKind::Caller, Some(caller)),
        Opens::Operator => (KeyKind::Operator, None),
    };
    wire::ApiKey {
        key_id,
        name: kept.name,
        kind: kind.into(),
        caller,
        hint: kept.hint,
        created_at: Time(kept.created),
        revoked_at: kept.revoked.map(Time),
        quotas: own.map(quotas),
        key,
    }
}

pub(crate) fn quotas(Quotas { active_jobs, scheduled_jobs, queued_tasks }: Quotas) -> wire::Quotas {
    wire::Quotas { active_jobs, scheduled_jobs, queued_tasks }
}

pub(crate) fn usage(Used { active_jobs, scheduled_jobs, queued_tasks }: Used) -> wire::CallerUsage {
    wire::CallerUsage { active_jobs, scheduled_jobs, queued_tasks }
}
