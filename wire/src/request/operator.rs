use super::{PerSecond, Text, Within, given};
use conveyor_domain::{CallerId, JobId, Quotas, RunId, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// What is examined, and whether it is repaired.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"dry_run": true}]))]
pub struct ReconcileRequest {
    /// One job. Left out: all.
    pub job_id: Option<JobId>,
    /// Change nothing.
    pub dry_run: Option<bool>,
    /// `next` of the previous answer.
    pub from: Option<String>,
}

/// Which dead letters are redriven: `all`, or those that every given filter fits.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("anyOf" = [
    {"required": ["job_id"], "properties": {"job_id": {"type": "string"}}},
    {"required": ["run_id"], "properties": {"run_id": {"type": "string"}}},
    {"required": ["error"], "properties": {"error": {"type": "string"}}},
    {"required": ["all"], "properties": {"all": {"const": true}}},
], "examples" = [{"error": "gateway_timeout", "per_second": 10.0}]))]
pub struct RedriveLetters {
    pub job_id: Option<JobId>,
    pub run_id: Option<RunId>,
    /// A part of the last error.
    #[schemars(length(min = 1))]
    pub error: Option<String>,
    /// All dead letters. Not together with a filter.
    pub all: Option<bool>,
    /// How many are sent in a second. Left out: as many as possible.
    pub per_second: Option<PerSecond>,
    /// How many at most.
    pub limit: Option<Within<u32, 1, { limits::PAGE_MAX as u64 }>>,
    /// `next_cursor` of the previous answer.
    pub cursor: Option<String>,
}

/// A key of a caller, or of an operator.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"name": "crawler", "quotas": {"active_jobs": 10}}]))]
pub struct CreateKey {
    /// A name for people.
    pub name: Text<1, { limits::NAME_MAX_CHARS }>,
    /// The caller that the key is for. Left out: a new one.
    pub caller: Option<CallerId>,
    /// Whether it is the key of an operator. Such a key has neither `caller` nor `quotas`.
    pub operator: Option<bool>,
    pub quotas: Option<QuotasBody>,
}

/// What a caller may have. What is left out stays as it is; null goes back to what the server was started with.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuotasBody {
    /// Jobs with a run that has not ended.
    #[serde(default, deserialize_with = "given")]
    pub active_jobs: Option<Option<Within<u32, 0, { limits::QUOTA_JOBS_MAX as u64 }>>>,
    /// Jobs with a schedule.
    #[serde(default, deserialize_with = "given")]
    pub scheduled_jobs: Option<Option<Within<u32, 0, { limits::QUOTA_JOBS_MAX as u64 }>>>,
    /// Tasks of live runs that have not ended.
    #[serde(default, deserialize_with = "given")]
    pub queued_tasks: Option<Option<Within<u64, 0, { limits::QUOTA_TASKS_MAX }>>>,
}

/// New quotas of a caller: at least one.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend("minProperties" = 1, "examples" = [{"active_jobs": 10, "queued_tasks": null}]))]
pub struct ChangeQuotas(pub QuotasBody);

impl QuotasBody {
    /// Quotas with these changes.
    pub fn over(self, quotas: Quotas) -> Quotas {
        let Quotas { active_jobs, scheduled_jobs, queued_tasks } = quotas;
        Quotas {
            active_jobs: self.active_jobs.map_or(active_jobs, |jobs| jobs.map(|n| n.0)),
            scheduled_jobs: self.scheduled_jobs.map_or(scheduled_jobs, |jobs| jobs.map(|n| n.0)),
            queued_tasks: self.queued_tasks.map_or(queued_tasks, |tasks| tasks.map(|n| n.0)),
        }
    }
}
