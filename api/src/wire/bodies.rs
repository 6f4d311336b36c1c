//! What the bodies of requests look like, for whoever reads the API's description. Nothing is parsed with these: parsers
//! take bodies apart field by field ([`crate::fields`]), and a test holds their names against those here.

#![expect(dead_code, reason = "they are described, never made")]

use crate::wire::schedule_bodies::ScheduleBody;
use conveyor_domain::ingest::list::Column;
use conveyor_domain::{CallerId, ExportFormat, JobId, OnInvalidRows, RunId, UploadId, limits};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// What `external_id` may be made of.
const EXTERNAL_ID: &str = "^[A-Za-z0-9._-]+$";
/// What every URL that is taken begins with. The rest is up to the URL standard.
const URL: &str = r"^[Hh][Tt][Tt][Pp][Ss]?://[^\s/?#:]\S*$";
/// In upper or lower case.
const METHOD: &str = "^([Gg][Ee][Tt]|[Pp][Oo][Ss][Tt])$";
const SHA256: &str = "^[0-9A-Fa-f]{64}$";
/// One ASCII character, and none that ends a line.
const CHARACTER: &str = r"^[\x01-\x09\x0b\x0c\x0e-\x7f]$";
/// No control characters.
const METADATA_KEY: &str = r"^[^\x00-\x1f\x7f-\x9f]+$";
const PER_SECOND_MIN: f64 = super::limits::PER_SECOND_MIN;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum JobType {
    /// It runs at once.
    Regular,
    /// It runs by its `schedule`.
    Scheduled,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SubmitStatus {
    /// Tasks can be added later.
    Open,
    /// These are all tasks.
    Closed,
}

/// A job: what to fetch, how, and how fast. It needs `tasks`, or a staged list, or to be open.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("anyOf" = [
    {"required": ["tasks"], "properties": {"tasks": {"type": "array", "minItems": 1}}},
    {"required": ["file_input_id"], "properties": {"file_input_id": {"type": "string"}}},
    {"required": ["status"], "properties": {"status": {"const": "open"}}},
], "examples" = [
    {"tasks": [{"url": "https://example.com/1"}, {"url": "https://example.com/2", "external_id": "sku-2"}],
     "zenrows_params": {"js_render": "true"}, "name": "nightly prices", "max_inflight": 50},
]))]
pub(crate) struct SubmitJob {
    r#type: Option<JobType>,
    status: Option<SubmitStatus>,
    #[schemars(length(max = limits::RUN_TASKS_MAX))]
    tasks: Option<Vec<TaskBody>>,
    file_input_id: Option<UploadId>,
    on_invalid_rows: Option<OnInvalidRows>,
    zenrows_params: Option<BTreeMap<String, ParamValue>>,
    #[schemars(regex(pattern = EXTERNAL_ID), length(max = limits::EXTERNAL_ID_MAX))]
    external_id: Option<String>,
    #[schemars(length(max = limits::NAME_MAX_CHARS))]
    name: Option<String>,
    #[schemars(with = "Option<MetadataBody>")]
    metadata: Option<BTreeMap<String, String>>,
    #[schemars(range(min = 1, max = limits::MAX_INFLIGHT_MAX))]
    max_inflight: Option<u32>,
    rate_limit: Option<RateBody>,
    retry: Option<RetryBody>,
    #[schemars(with = "Option<DomainLimitsBody>")]
    domain_limits: Option<BTreeMap<String, DomainLimitBody>>,
    #[schemars(range(min = 1, max = limits::RESULT_TTL_DAYS_MAX))]
    result_ttl_days: Option<u32>,
    #[schemars(range(min = 0.000001, max = 1.0))]
    max_failure_ratio: Option<f64>,
    schedule: Option<ScheduleBody>,
    webhook: Option<WebhookBody>,
    #[schemars(length(min = 1, max = limits::SFN_TASK_TOKEN_MAX_CHARS))]
    sfn_task_token: Option<String>,
}

/// Where the end of a run is told.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"url": "https://hooks.example.com/conveyor", "signature": true}]))]
pub(crate) struct WebhookBody {
    url: String,
    signature: Option<bool>,
}

/// The same, replaced whole: with a default, a new URL would silently end the signing.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"url": "https://hooks.example.com/conveyor", "signature": true}]))]
pub(crate) struct PutWebhook {
    url: String,
    signature: bool,
}

/// A value of a parameter. It is kept as text: `true`, `3`, an object as its JSON.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum ParamValue {
    Text(String),
    Flag(bool),
    Number(f64),
    Object(BTreeMap<String, Value>),
}

/// Texts under names of the caller's own.
#[derive(JsonSchema)]
#[schemars(transparent, extend(
    "maxProperties" = limits::METADATA_PAIRS_MAX,
    "propertyNames" = {"pattern": METADATA_KEY, "maxLength": limits::METADATA_KEY_MAX},
    "additionalProperties" = {"type": "string", "maxLength": limits::METADATA_VALUE_MAX},
))]
struct MetadataBody(BTreeMap<String, String>);

/// One URL to fetch.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"url": "https://example.com/1", "external_id": "sku-1"}]))]
struct TaskBody {
    #[schemars(regex(pattern = URL), length(max = limits::URL_MAX_BYTES))]
    url: String,
    #[schemars(regex(pattern = EXTERNAL_ID), length(max = limits::EXTERNAL_ID_MAX))]
    external_id: Option<String>,
    #[schemars(with = "Option<MetadataBody>")]
    metadata: Option<BTreeMap<String, String>>,
    #[schemars(regex(pattern = METHOD))]
    method: Option<String>,
    /// What a POST sends: a text as it is, as a form; anything else as its JSON.
    body: Option<Value>,
    zenrows_params: Option<BTreeMap<String, ParamValue>>,
}

/// More tasks for an open job.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [
    {"tasks": [{"url": "https://example.com/3"}], "last_batch": true},
]))]
pub(crate) struct AddTasks {
    #[schemars(length(min = 1, max = limits::ADD_TASKS_MAX))]
    tasks: Vec<TaskBody>,
    last_batch: Option<bool>,
}

/// What is different in another run.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"zenrows_params": {"premium_proxy": "true"}}]))]
pub(crate) struct RerunJob {
    zenrows_params: Option<BTreeMap<String, ParamValue>>,
}

/// New limits of a job. What is left out stays; what is named is replaced whole; null takes it away.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1, "examples" = [
    {"max_inflight": 20, "rate_limit": {"per_second": 5}},
]))]
pub(crate) struct ChangeLimits {
    #[serde(default)]
    #[schemars(range(min = 1, max = limits::MAX_INFLIGHT_MAX))]
    max_inflight: u32,
    rate_limit: Option<RateBody>,
    retry: Option<RetryBody>,
    #[schemars(with = "Option<DomainLimitsBody>")]
    domain_limits: Option<BTreeMap<String, DomainLimitBody>>,
    #[schemars(range(min = 0.000001, max = 1.0))]
    max_failure_ratio: Option<f64>,
}

/// How many tasks begin in a second.
#[derive(Deserialize, JsonSchema)]
struct RateBody {
    #[schemars(range(min = PER_SECOND_MIN, max = limits::RATE_MAX))]
    per_second: f64,
    #[schemars(range(min = 1, max = limits::BURST_MAX))]
    burst: Option<u32>,
}

/// How often and when a task is tried again. What is left out is up to the workers.
#[derive(Deserialize, JsonSchema)]
struct RetryBody {
    #[schemars(range(min = 1, max = limits::RETRY_ATTEMPTS_MAX))]
    attempts_max: Option<u32>,
    #[schemars(range(min = 1, max = limits::RETRY_BASE_MAX.as_millis() as u64))]
    base_ms: Option<u64>,
    /// Not less than `base_ms`.
    #[schemars(range(min = 1, max = limits::RETRY_CAP_MAX.as_millis() as u64))]
    cap_ms: Option<u64>,
}

/// Limits by host, as in a URL and without a port; `*` stands for every other host.
#[derive(JsonSchema)]
#[schemars(transparent, extend(
    "maxProperties" = limits::DOMAIN_LIMITS_MAX,
    "propertyNames" = {"minLength": 1, "maxLength": limits::DOMAIN_MAX_CHARS},
))]
struct DomainLimitsBody(BTreeMap<String, DomainLimitBody>);

/// What all workers together may do at one site. It has a rate, or `max_inflight`, or both.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("anyOf" = [
    {"required": ["per_second"], "properties": {"per_second": {"type": "number"}}},
    {"required": ["max_inflight"], "properties": {"max_inflight": {"type": "integer"}}},
]))]
struct DomainLimitBody {
    #[schemars(range(min = PER_SECOND_MIN, max = limits::RATE_MAX))]
    per_second: Option<f64>,
    /// Needs `per_second`.
    #[schemars(range(min = 1, max = limits::BURST_MAX))]
    burst: Option<u32>,
    #[schemars(range(min = 1, max = limits::MAX_INFLIGHT_MAX))]
    max_inflight: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ListType {
    Csv,
    Jsonl,
    Lines,
}

/// A slot for a list that will be sent.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [
    {"type": "csv", "csv": {"header": true, "fields": {"url": "link", "external_id": "sku"}}, "size_bytes": 48_211_337},
]))]
pub(crate) struct CreateInput {
    r#type: ListType,
    /// Only with type `csv`. Left out, it is told by the first record.
    csv: Option<CsvBody>,
    #[schemars(range(max = limits::LIST_MAX_BYTES))]
    size_bytes: Option<u64>,
    #[schemars(regex(pattern = SHA256))]
    sha256: Option<String>,
    multipart: Option<bool>,
    /// Only with `multipart`.
    #[schemars(range(min = 1, max = limits::PART_MAX_BYTES))]
    part_bytes: Option<u64>,
}

/// How a CSV is written.
#[derive(Deserialize, JsonSchema)]
struct CsvBody {
    #[schemars(regex(pattern = CHARACTER))]
    delimiter: Option<String>,
    /// Not the delimiter.
    #[schemars(regex(pattern = CHARACTER))]
    quote: Option<String>,
    header: Option<bool>,
    fields: CsvFields,
}

/// Where the columns are: by name, which needs a header, or by index from 0.
#[derive(Deserialize, JsonSchema)]
struct CsvFields {
    url: Column,
    external_id: Option<Column>,
}

/// The parts that are about to be sent.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"numbers": [1, 2, 3]}]))]
pub(crate) struct SignParts {
    #[schemars(length(min = 1, max = limits::PART_URLS_MAX), inner(range(min = 1, max = limits::UPLOAD_PARTS_MAX)))]
    numbers: Vec<u32>,
    #[schemars(range(min = 1, max = limits::PART_MAX_BYTES))]
    size_bytes: Option<u64>,
}

/// The parts that are to be joined. Left out, whatever is there.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"parts": [{"number": 1, "etag": "9f86d081884c7d65"}]}]))]
pub(crate) struct CompleteParts {
    parts: Option<Vec<NamedPart>>,
}

/// A part as the caller believes that it is there.
#[derive(Deserialize, JsonSchema)]
struct NamedPart {
    #[schemars(range(min = 1, max = limits::UPLOAD_PARTS_MAX))]
    number: u32,
    /// With or without the quotes that the header had.
    etag: String,
}

/// What is looked at, and whether it is put right.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "ReconcileRequest", extend("examples" = [{"dry_run": true}]))]
pub(crate) struct ReconcileBody {
    /// One job; left out, all.
    job_id: Option<JobId>,
    dry_run: Option<bool>,
    /// `next` of the answer before.
    from: Option<String>,
}

/// Which letters are sent again: `all`, or those that fit every filter.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("anyOf" = [
    {"required": ["job_id"], "properties": {"job_id": {"type": "string"}}},
    {"required": ["run_id"], "properties": {"run_id": {"type": "string"}}},
    {"required": ["error"], "properties": {"error": {"type": "string"}}},
    {"required": ["all"], "properties": {"all": {"const": true}}},
], "examples" = [{"error": "gateway_timeout", "per_second": 10}]))]
pub(crate) struct RedriveLetters {
    job_id: Option<JobId>,
    run_id: Option<RunId>,
    /// A part of the last error.
    #[schemars(length(min = 1))]
    error: Option<String>,
    /// Not with a filter.
    all: Option<bool>,
    #[schemars(range(min = PER_SECOND_MIN, max = limits::RATE_MAX))]
    per_second: Option<f64>,
    #[schemars(range(min = 1, max = limits::PAGE_MAX))]
    limit: Option<u32>,
    cursor: Option<String>,
}

/// Which file is wanted. Left out: zip.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"format": "jsonl"}]))]
pub(crate) struct StartExport {
    format: Option<ExportFormat>,
}

/// A key of a caller, or of an operator.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"name": "crawler", "quotas": {"active_jobs": 10}}]))]
pub(crate) struct CreateKey {
    #[schemars(length(min = 1, max = limits::NAME_MAX_CHARS))]
    name: String,
    caller: Option<CallerId>,
    operator: Option<bool>,
    quotas: Option<QuotasBody>,
}

/// What a caller may have. Null goes back to what the server was started with.
#[derive(Deserialize, JsonSchema)]
struct QuotasBody {
    #[schemars(range(max = limits::QUOTA_JOBS_MAX))]
    active_jobs: Option<u32>,
    #[schemars(range(max = limits::QUOTA_JOBS_MAX))]
    scheduled_jobs: Option<u32>,
    #[schemars(range(max = limits::QUOTA_TASKS_MAX))]
    queued_tasks: Option<u64>,
}

/// The same, at least one of them.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1, "examples" = [{"active_jobs": 10, "queued_tasks": null}]))]
pub(crate) struct ChangeQuotas {
    #[schemars(range(max = limits::QUOTA_JOBS_MAX))]
    active_jobs: Option<u32>,
    #[schemars(range(max = limits::QUOTA_JOBS_MAX))]
    scheduled_jobs: Option<u32>,
    #[schemars(range(max = limits::QUOTA_TASKS_MAX))]
    queued_tasks: Option<u64>,
}
