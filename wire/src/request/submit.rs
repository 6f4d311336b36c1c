use super::{
    DomainLimitsBody, FailureRatio, Malformed, MaxInflight, RateBody, RetryBody, ScheduleBody, Text,
    WebhookBody, Within,
};
use crate::JobType;
use conveyor_domain::{ExportFormat, OnInvalidRows, UploadId, limits, task_input, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;
use std::fmt;

/// Every URL that is accepted begins like this. The rest is up to the URL standard.
const URL: &str = r"^[Hh][Tt][Tt][Pp][Ss]?://[^\s/?#:]\S*$";
/// In upper or lower case.
const METHOD: &str = "^([Gg][Ee][Tt]|[Pp][Oo][Ss][Tt])$";

/// A job: what to fetch, how, and how fast. It needs `tasks`, or a staged list, or to be open.
// Generic, because the server takes `tasks` out of the body before it parses it, and reads `schedule` only of a scheduled job.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SubmitJob", extend("anyOf" = [
    {"required": ["tasks"], "properties": {"tasks": {"type": "array", "minItems": 1}}},
    {"required": ["file_input_id"], "properties": {"file_input_id": {"type": "string"}}},
    {"required": ["status"], "properties": {"status": {"const": "open"}}},
], "examples" = [
    {"tasks": [{"url": "https://example.com/1"}, {"url": "https://example.com/2", "external_id": "sku-2"}],
     "zenrows_params": {"js_render": "true"}, "name": "nightly prices", "max_inflight": 50},
]))]
pub struct SubmitJob<Tasks = Vec<TaskBody>, Schedule = ScheduleBody> {
    /// Left out: `regular`.
    #[serde(rename = "type")]
    pub kind: Option<JobType>,
    /// Left out: `closed`.
    pub status: Option<SubmitStatus>,
    /// URLs to fetch. Not together with `file_input_id`.
    #[schemars(length(max = limits::RUN_TASKS_MAX))]
    pub tasks: Option<Tasks>,
    /// The slot of a staged list of URLs to fetch.
    // As text: the server answers a malformed id like an unknown one.
    #[schemars(with = "Option<UploadId>")]
    pub file_input_id: Option<String>,
    /// Only with `file_input_id`. Left out: `skip`.
    pub on_invalid_rows: Option<OnInvalidRows>,
    pub zenrows_params: Option<ZenRowsParams>,
    pub external_id: Option<ExternalId>,
    /// A name for people.
    #[schemars(extend("examples" = ["nightly prices"]))]
    pub name: Option<Text<0, { limits::NAME_MAX_CHARS }>>,
    pub metadata: Option<MetadataBody>,
    /// How many tasks may be in flight at once. Left out: 100.
    #[schemars(extend("examples" = [100]))]
    pub max_inflight: Option<MaxInflight>,
    /// How many tasks may start in a second. Left out: as many as fit into `max_inflight`.
    pub rate_limit: Option<RateBody>,
    /// How often and when a task is retried. Left out: as the workers are configured.
    pub retry: Option<RetryBody>,
    pub domain_limits: Option<DomainLimitsBody>,
    /// For how many days results can be read. Left out: 14.
    #[schemars(extend("examples" = [14]))]
    pub result_ttl_days: Option<Within<u32, 1, { limits::RESULT_TTL_DAYS_MAX as u64 }>>,
    /// A run pauses as soon as more than this part of its tasks has failed. Left out: it does not.
    #[schemars(extend("examples" = [0.5]))]
    pub max_failure_ratio: Option<FailureRatio>,
    /// When the job runs. Only of a scheduled job, which needs it.
    pub schedule: Option<Schedule>,
    pub webhook: Option<WebhookBody>,
    pub sfn_task_token: Option<TaskToken>,
}

words! {
    /// Whether tasks can be added later.
    #[derive(JsonSchema)]
    pub enum SubmitStatus as json {
        /// Tasks can be added later.
        Open = "open",
        /// These are all tasks.
        Closed = "closed",
    }
}

/// Parameters that the gateway gets beside the URL, such as `js_render`, `premium_proxy`, `proxy_country`, `custom_headers`,
/// `response_type`, `css_extractor`. A value is kept as text: `true`, `3`, an object as its JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend(
    "additionalProperties" = {"type": ["string", "boolean", "number", "object"]},
    "examples" = [{"js_render": "true"}],
))]
pub struct ZenRowsParams(pub Map<String, Value>);

/// The caller's own id: 1 to 128 letters, digits, `.`, `_` and `-`. It need not be unique.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", extend(
    "pattern" = "^[A-Za-z0-9._-]+$", "maxLength" = limits::EXTERNAL_ID_MAX, "examples" = ["sku-1"],
))]
pub struct ExternalId(pub String);

impl TryFrom<String> for ExternalId {
    type Error = Malformed;

    fn try_from(id: String) -> Result<ExternalId, Malformed> {
        match task_input::check_external_id(&id) {
            Ok(()) => Ok(ExternalId(id)),
            Err(_) => Err(Malformed { expected: "1 to 128 letters, digits, `.`, `_` and `-`" }),
        }
    }
}

/// The caller's own texts, returned as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend(
    "maxProperties" = limits::METADATA_PAIRS_MAX,
    "propertyNames" = {"pattern": r"^[^\x00-\x1f\x7f-\x9f]+$", "maxLength": limits::METADATA_KEY_MAX},
    "additionalProperties" = {"type": "string", "maxLength": limits::METADATA_VALUE_MAX},
    "examples" = [{"team": "search"}],
))]
pub struct MetadataBody(pub BTreeMap<String, String>);

/// The task token of a state machine of Step Functions that waits for the end of the first run. It is a secret: it is not
/// printed, and no answer has it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend("examples" = ["AAAAKgAAAAIAAAAA"]))]
pub struct TaskToken(pub Text<1, { limits::SFN_TASK_TOKEN_MAX_CHARS }>);

impl fmt::Debug for TaskToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TaskToken")
    }
}

/// One URL to fetch.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"url": "https://example.com/1", "external_id": "sku-1"}]))]
pub struct TaskBody {
    /// An http or https URL.
    #[schemars(regex(pattern = URL), length(max = limits::URL_MAX_BYTES))]
    #[schemars(extend("examples" = ["https://example.com/1"]))]
    pub url: String,
    pub external_id: Option<ExternalId>,
    pub metadata: Option<MetadataBody>,
    /// The method of the request to the URL, `GET` or `POST`. Left out: `GET`.
    #[schemars(regex(pattern = METHOD), extend("examples" = ["GET"]))]
    pub method: Option<String>,
    /// What a POST sends: a string is sent as it is, as a form; anything else as its JSON.
    #[schemars(extend("examples" = [{"query": "shoes"}]))]
    pub body: Option<Value>,
    /// They override those of the job.
    pub zenrows_params: Option<ZenRowsParams>,
}

impl TaskBody {
    pub fn of(url: impl Into<String>) -> TaskBody {
        TaskBody { url: url.into(), ..TaskBody::default() }
    }
}

/// More tasks for an open job.
// Generic, because the server leaves `tasks` as JSON until it checks them one by one.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AddTasks", extend("examples" = [
    {"tasks": [{"url": "https://example.com/3"}], "last_batch": true},
]))]
pub struct AddTasks<Tasks = Vec<TaskBody>> {
    /// URLs to fetch.
    #[schemars(length(min = 1, max = limits::ADD_TASKS_MAX))]
    pub tasks: Tasks,
    /// Whether these are the last: the job is closed with them.
    pub last_batch: Option<bool>,
}

/// What is different in another run.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"zenrows_params": {"premium_proxy": "true"}}]))]
pub struct RerunJob {
    /// They override those of the job and of its tasks.
    pub zenrows_params: Option<ZenRowsParams>,
}

/// Which file is built.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"format": "jsonl"}]))]
pub struct StartExport {
    /// Left out: `zip`.
    pub format: Option<ExportFormat>,
}
