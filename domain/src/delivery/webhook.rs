//! What a job says about notifications, and what a notification says (SPEC 6.21).

use crate::delivery::Answer;
use crate::repair::by_class;
use crate::{
    EventId, FailureClass, Job, JobSpec, Metadata, Run, RunFailure, RunFailureReason, RunId, RunStats, Spend,
    Timestamp,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Not;

/// The shape of an event's body; a change that a receiver could stumble over gets another name.
pub const SCHEMA: &str = "conveyor.event.v1";

/// Where the events of a job's runs are sent. Stored as JSON in the job: new fields need a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookConfig {
    pub url: String,
    /// Whether deliveries are signed with the caller's active key.
    pub signature: bool,
    /// Since when the job has one. Runs that ended before were not to be told of.
    #[serde(default)]
    pub since: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<Disabled>,
}

/// The receiver said that it wants no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disabled {
    pub at: Timestamp,
    pub reason: String,
}

impl WebhookConfig {
    pub fn new(url: String, signature: bool) -> WebhookConfig {
        WebhookConfig { url, signature, since: Timestamp::default(), disabled: None }
    }

    pub fn is_enabled(&self) -> bool {
        self.disabled.is_none()
    }

    /// Names the receiver in few bytes: the URL up to its query. Two jobs that notify the same endpoint have the same one.
    pub fn receiver(&self) -> String {
        let endpoint = self.url.split(['?', '#']).next().unwrap_or_default();
        Sha256::digest(endpoint.as_bytes())[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// This one in the place of another. Writing the same again changes nothing, unless it was disabled.
    fn replacing(self, before: Option<&WebhookConfig>, now: Timestamp) -> WebhookConfig {
        let since = before.filter(|before| before.is_enabled()).map_or(now, |before| before.since);
        WebhookConfig { since, ..self }
    }
}

impl JobSpec {
    #[must_use]
    pub fn with_webhook(&self, webhook: Option<WebhookConfig>, now: Timestamp) -> JobSpec {
        let webhook = webhook.map(|webhook| webhook.replacing(self.webhook.as_ref(), now));
        JobSpec { webhook, ..self.clone() }
    }

    /// Without sending anything to this URL any more. One that was put in its place meanwhile goes on.
    #[must_use]
    pub fn without_receiver(&self, url: &str, reason: &str, now: Timestamp) -> JobSpec {
        let mut next = self.clone();
        if let Some(webhook) = next.webhook.as_mut().filter(|hook| hook.is_enabled() && hook.url == url) {
            webhook.disabled = Some(Disabled { at: now, reason: reason.to_owned() });
        }
        next
    }
}

crate::words! {
    /// What happened. `run.completed`: every task has ended. `run.failed`: the whole run failed. `run.stopped` and
    /// `run.deleted`: it was ended by a request, which only a state machine hears of. `webhook.test`: a test of a
    /// receiver.
    #[derive(JsonSchema)]
    pub enum EventType as json {
        RunCompleted = "run.completed",
        RunFailed = "run.failed",
        /// Only a state machine hears of these two: it waits for the run, however that ends.
        RunStopped = "run.stopped",
        RunDeleted = "run.deleted",
        Test = "webhook.test",
    }
}

/// The body of a notification. It is fixed when the run ends, and the same for every attempt.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(extend("examples" = [
    {"event_id": "01KCX5W7A9B1C3D5E7F9G1H3J5", "event_type": "run.completed", "external_id": "sku-1",
    "job_id": "01KCX5T0Q8H2V4M6N8P0R2S4T6", "metadata": {"team": "search"}, "occurred_at":
    "2026-01-01T00:00:05.250Z", "run_id": "01KCX5T0Q8M3Z7C9D1F5G7H9J1", "run_sequence": 1, "schema":
    "conveyor.event.v1", "stats": {"completed": 2, "failed": 1, "failure_reasons": {"blocked": 1},
    "successful": 1, "total": 2}}
]))]
pub struct WebhookEvent<'a> {
    /// The format of the body: `conveyor.event.v1`. An incompatible change gets another name.
    #[schemars(extend("enum" = [SCHEMA]))]
    schema: &'static str,
    event_id: EventId,
    event_type: EventType,
    /// When it happened.
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    occurred_at: Timestamp,
    /// The job; `test` in a test.
    job_id: String,
    /// The caller's own id of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<&'a str>,
    /// The caller's own texts of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Metadata>,
    /// The run; `test` in a test.
    run_id: String,
    /// Which run of its job it is, from 1.
    run_sequence: u32,
    /// Its tasks, counted at that moment. Not in a test.
    #[serde(skip_serializing_if = "Option::is_none")]
    stats: Option<EventStats>,
    /// Why the whole run failed. `insufficient_credits`, `subscription_inactive`, `api_key_cap_reached`: the gateway
    /// refused the account. `ingest_failed`: its list cannot be taken; `failure_detail` begins with the code that says why.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_reason: Option<RunFailureReason>,
    /// The same, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_detail: Option<Cow<'a, str>>,
}

/// The tasks of a run, counted: in a notification, and in every answer that shows the run.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Stats", extend("examples" = [
    {"total": 2, "completed": 2, "successful": 2, "failed": 0, "spend": {"credits": 20, "cost": 0.0042}},
]))]
pub struct EventStats {
    /// How many tasks there are.
    pub total: u32,
    /// False while it is not known how many tasks there will be; left out otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_is_final: Option<bool>,
    /// `successful` and `failed` together.
    pub completed: u32,
    /// Tasks that have a result.
    pub successful: u32,
    /// Tasks that failed for good.
    pub failed: u32,
    /// The counts contradict each other and are cut to fit (SPEC 6.14).
    #[serde(default, skip_serializing_if = "Not::not")]
    pub inconsistent: bool,
    /// Failed tasks by class. `auth_failed`: the gateway refused the key. `blocked`: the target refused the request.
    /// `bad_target`: there is nothing to be had at the URL. `rate_limited`: too many requests for the gateway or the
    /// target. `timeout`: no answer in time. `gateway_error`: the gateway, or the target, failed or could not be
    /// reached. `other`: anything else.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("propertyNames" = {"enum": FailureClass::ALL.map(FailureClass::as_str)}))]
    pub failure_reasons: BTreeMap<Cow<'static, str>, u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spend: Option<EventSpend>,
}

/// What was charged, as far as the gateway said so.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Spend")]
#[schemars(extend("examples" = [{"cost": 0.0042, "credits": 20}]))]
pub struct EventSpend {
    /// Credits of the gateway.
    pub credits: u64,
    /// Money, in the currency of the account.
    pub cost: f64,
}

impl EventSpend {
    /// Nothing where nothing was charged.
    pub fn of(spend: Spend) -> Option<EventSpend> {
        (!spend.is_zero()).then(|| EventSpend { credits: spend.credits, cost: spend.cost() })
    }
}

impl<'a> WebhookEvent<'a> {
    /// What happened to a run. It happened when the run was last changed: nothing changes one that has ended.
    pub fn of(id: EventId, kind: EventType, job: &'a Job, run: &'a Run, stats: RunStats) -> WebhookEvent<'a> {
        let failure = run.failure.as_ref().filter(|_| kind == EventType::RunFailed);
        WebhookEvent {
            schema: SCHEMA,
            event_id: id,
            event_type: kind,
            occurred_at: run.updated,
            job_id: job.id.to_string(),
            external_id: job.spec.external_id.as_deref(),
            metadata: Some(&job.spec.metadata).filter(|metadata| !metadata.is_empty()),
            run_id: run.id.to_string(),
            run_sequence: run.sequence,
            stats: Some(stats.into()),
            failure_reason: failure.map(RunFailure::shown),
            failure_detail: failure.map(RunFailure::cause),
        }
    }

    /// An event that did not happen, under ids that no job or run has.
    pub fn test(id: EventId, now: Timestamp) -> WebhookEvent<'static> {
        WebhookEvent {
            schema: SCHEMA,
            event_id: id,
            event_type: EventType::Test,
            occurred_at: now,
            job_id: "test".to_owned(),
            external_id: None,
            metadata: None,
            run_id: "test".to_owned(),
            run_sequence: 1,
            stats: None,
            failure_reason: None,
            failure_detail: None,
        }
    }

    pub fn body(&self) -> String {
        // A plain struct with text keys: there is nothing in it that JSON could not say.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl From<RunStats> for EventStats {
    fn from(stats: RunStats) -> EventStats {
        let RunStats { total, counts, spend } = stats.shown();
        EventStats {
            total,
            total_is_final: None,
            completed: counts.completed(),
            successful: counts.successful,
            failed: counts.failed_total(),
            inconsistent: stats.is_inconsistent(),
            failure_reasons: by_class(&counts.failed).map(|(class, n)| (class.as_str().into(), n)).collect(),
            spend: EventSpend::of(spend),
        }
    }
}

fn as_text<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(time)
}

/// Why a URL cannot be a webhook's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlFault {
    #[error("it is not a URL with a host and without a user name")]
    Malformed,
    #[error("it is not https")]
    NotHttps,
    #[error("its host cannot be found")]
    Unresolvable,
    #[error("it leads to an address that may not be reached")]
    AddressNotAllowed,
}

/// What came of an event that was only sent to try a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestSent {
    pub event: EventId,
    pub answer: Answer,
    pub elapsed_ms: u64,
}

crate::words! {
    /// Who is told.
    #[derive(JsonSchema)]
    #[schemars(inline)]
    pub enum Target as json {
        /// The webhook of the job.
        Webhook = "webhook",
        /// A state machine that waits for the job's first run.
        StepFunctions = "step_functions",
    }
}

impl Target {
    /// The id of the event that tells this target of the end of a run: always the same, so that a notice that was lost comes
    /// back under its own name.
    pub fn event_of(self, run: RunId) -> EventId {
        EventId::derived(run, self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(url: &str) -> WebhookConfig {
        WebhookConfig::new(url.to_owned(), false)
    }

    #[test]
    fn a_webhook_is_as_old_as_the_first_that_was_not_taken_away() {
        let none = JobSpec::default();
        let first = none.with_webhook(Some(hook("https://a.example")), Timestamp(5));
        let second = first.with_webhook(Some(hook("https://b.example")), Timestamp(9));
        let hook_of = |spec: &JobSpec| spec.webhook.clone().unwrap();
        assert_eq!((hook_of(&first).since, hook_of(&second).since), (Timestamp(5), Timestamp(5)));
        assert_eq!(second.limits_revision, none.limits_revision, "no limit has changed");
        assert_eq!(first.with_webhook(Some(hook("https://a.example")), Timestamp(7)), first);
        assert_eq!(second.with_webhook(None, Timestamp(10)).webhook, None);
    }

    #[test]
    fn only_the_receiver_that_said_so_is_disabled_and_can_be_enabled_again() {
        let spec = JobSpec::default().with_webhook(Some(hook("https://a.example")), Timestamp(5));
        assert_eq!(spec.without_receiver("https://b.example", "gone", Timestamp(6)), spec);
        let off = spec.without_receiver("https://a.example", "gone", Timestamp(6));
        assert!(!off.webhook.as_ref().unwrap().is_enabled());
        assert_eq!(off.without_receiver("https://a.example", "again", Timestamp(7)), off, "once");
        let on = off.with_webhook(Some(hook("https://a.example")), Timestamp(8)).webhook.unwrap();
        assert_eq!((on.is_enabled(), on.since), (true, Timestamp(8)));
    }

    #[test]
    fn an_older_config_reads() {
        let old: WebhookConfig =
            serde_json::from_str(r#"{"url":"https://a.example","signature":true}"#).unwrap();
        assert_eq!(old, WebhookConfig::new("https://a.example".to_owned(), true));
    }

    #[test]
    fn a_test_event_leaves_out_what_it_does_not_know() {
        let id = EventId::derived(RunId::from_bytes([1; 16]), "x");
        let body: serde_json::Value =
            serde_json::from_str(&WebhookEvent::test(id, Timestamp(0)).body()).unwrap();
        let expected = serde_json::json!({
            "schema": SCHEMA, "event_id": id, "event_type": "webhook.test", "occurred_at": "1970-01-01T00:00:00.000Z",
            "job_id": "test", "run_id": "test", "run_sequence": 1,
        });
        assert_eq!(body, expected);
    }
}
