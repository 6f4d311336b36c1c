use super::{Decimal, Named, Within, given};
use conveyor_domain::limits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Tasks that start in a second, on average; exact to three decimal places.
pub type PerSecond = Decimal<1_000, { limits::RATE_MAX as u64 * 1_000_000 }>;

/// How many tasks may be in flight at once.
pub type MaxInflight = Within<u32, 1, { limits::MAX_INFLIGHT_MAX as u64 }>;

/// How many tasks may start at once.
pub type Burst = Within<u32, 1, { limits::BURST_MAX as u64 }>;

/// A part of the tasks of a run; exact to six decimal places.
pub type FailureRatio = Decimal<1, 1_000_000>;

/// Limits by host, as in a URL and without a port; `*` is the limit of each other host.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend(
    "propertyNames" = {"minLength": 1, "maxLength": limits::DOMAIN_MAX_CHARS},
    "examples" = [{"example.com": {"per_second": 2.0, "burst": 2, "max_inflight": 4}}],
))]
pub struct DomainLimitsBody(pub Named<DomainLimitBody, { limits::DOMAIN_LIMITS_MAX }>);

/// New limits of a job. What is left out stays as it is, what is given is replaced whole, null removes it.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1, "examples" = [
    {"max_inflight": 20, "rate_limit": {"per_second": 5.0}},
]))]
pub struct ChangeLimits {
    /// How many tasks may be in flight at once. A job always has this limit: null is refused.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "MaxInflight", extend("examples" = [20]))]
    pub max_inflight: Option<MaxInflight>,
    /// How many tasks may start in a second. Null: as many as fit into `max_inflight`.
    #[serde(default, deserialize_with = "given")]
    pub rate_limit: Option<Option<RateBody>>,
    /// How often and when a task is retried. Null: as the workers are configured.
    #[serde(default, deserialize_with = "given")]
    pub retry: Option<Option<RetryBody>>,
    /// Limits by host. Null: none.
    #[serde(default, deserialize_with = "given")]
    pub domain_limits: Option<Option<DomainLimitsBody>>,
    /// A run pauses as soon as more than this part of its tasks has failed. Null: it does not.
    #[serde(default, deserialize_with = "given")]
    pub max_failure_ratio: Option<Option<FailureRatio>>,
}

/// A token bucket: how many tasks may start in a second, and how many at once.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RateBody {
    /// Tasks that start in a second, on average; exact to three decimal places.
    pub per_second: PerSecond,
    /// How many may start at once. Left out: as many as in a second.
    pub burst: Option<Burst>,
}

/// How often and when a task is retried. What is left out is up to the workers.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct RetryBody {
    /// How many attempts a task has.
    pub attempts_max: Option<Within<u32, 1, { limits::RETRY_ATTEMPTS_MAX as u64 }>>,
    /// How long the first retry waits, in milliseconds. Each further one waits twice as long.
    pub base_ms: Option<Within<u64, 1, { limits::RETRY_BASE_MAX.as_millis() as u64 }>>,
    /// The longest wait before a retry, in milliseconds. Not less than `base_ms`.
    pub cap_ms: Option<Within<u64, 1, { limits::RETRY_CAP_MAX.as_millis() as u64 }>>,
}

/// What all workers together may do at one host: a rate, `max_inflight`, or both.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("anyOf" = [
    {"required": ["per_second"], "properties": {"per_second": {"type": "number"}}},
    {"required": ["max_inflight"], "properties": {"max_inflight": {"type": "integer"}}},
]))]
pub struct DomainLimitBody {
    /// Tasks that start in a second, on average; exact to three decimal places.
    pub per_second: Option<PerSecond>,
    /// How many may start at once. Needs `per_second`. Left out: as many as in a second.
    pub burst: Option<Burst>,
    /// How many tasks may be in flight there at once.
    pub max_inflight: Option<MaxInflight>,
}
