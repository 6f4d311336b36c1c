//! Keys that operators make, and what callers may have (SPEC 6.24).

use super::Time;
use super::limits::number;
use crate::fields::Fields;
use crate::problem::{ApiError, Result};
use crate::warnings::Warnings;
use conveyor_domain::access::quota::Used;
use conveyor_domain::{ApiKey, ApiKeyId, CallerId, Opens, Quotas, limits};
use schemars::JsonSchema;
use serde::Serialize;

pub(crate) const KEY: &[&str] = &["name", "caller", "operator", "quotas"];
pub(crate) const QUOTAS: &[&str] = &["active_jobs", "scheduled_jobs", "queued_tasks"];

/// A key to be made.
#[derive(Debug)]
pub(crate) struct NewKey {
    pub name: String,
    pub operator: bool,
    /// `None`: a new one.
    pub caller: Option<CallerId>,
    pub quotas: Option<QuotasChange>,
}

impl NewKey {
    pub fn parse(body: &[u8], warnings: &Warnings) -> Result<NewKey> {
        let fields = Fields::parse(body, KEY, warnings)?;
        let max = limits::NAME_MAX_CHARS;
        let name: Option<String> = fields.get("name", "a string")?;
        let name = name.filter(|name| (1..=max).contains(&name.chars().count()));
        let name =
            name.ok_or_else(|| ApiError::invalid(format!("`name` must have 1 to {max} characters.")))?;
        let operator = fields.get("operator", "true or false")?.unwrap_or(false);
        let caller = fields.get("caller", "the id of a caller")?;
        let quotas = fields.nested("quotas", QUOTAS)?.as_ref().map(QuotasChange::of).transpose()?;
        if operator && (caller.is_some() || quotas.is_some()) {
            return Err(ApiError::invalid(
                "An operator key is no caller's: it has no `caller` and no `quotas`.",
            ));
        }
        Ok(NewKey { name, operator, caller, quotas })
    }
}

/// What a request changes of quotas. Null goes back to what the server was started with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QuotasChange {
    active_jobs: Option<Option<u32>>,
    scheduled_jobs: Option<Option<u32>>,
    queued_tasks: Option<Option<u64>>,
}

impl QuotasChange {
    pub fn parse(body: &[u8], warnings: &Warnings) -> Result<QuotasChange> {
        let fields = Fields::parse(body, QUOTAS, warnings)?;
        if !QUOTAS.iter().any(|name| fields.is_given(name)) {
            let names: Vec<String> = QUOTAS.iter().map(|name| format!("`{name}`")).collect();
            return Err(ApiError::invalid(format!("The body must have one of {}.", names.join(", "))));
        }
        QuotasChange::of(&fields)
    }

    fn of(fields: &Fields<'_>) -> Result<QuotasChange> {
        let given = |name| fields.is_given(name).then_some(name);
        let jobs = |name| number(fields, name, 0..=limits::QUOTA_JOBS_MAX);
        let tasks = |name| number(fields, name, 0..=limits::QUOTA_TASKS_MAX);
        Ok(QuotasChange {
            active_jobs: given("active_jobs").map(jobs).transpose()?,
            scheduled_jobs: given("scheduled_jobs").map(jobs).transpose()?,
            queued_tasks: given("queued_tasks").map(tasks).transpose()?,
        })
    }

    pub fn apply(self, quotas: Quotas) -> Quotas {
        Quotas {
            active_jobs: self.active_jobs.unwrap_or(quotas.active_jobs),
            scheduled_jobs: self.scheduled_jobs.unwrap_or(quotas.scheduled_jobs),
            queued_tasks: self.queued_tasks.unwrap_or(quotas.queued_tasks),
        }
    }
}

/// What a caller may have: its own quotas, or those that the server was started with. One that is not there is no limit.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Quotas")]
pub(crate) struct QuotasJson {
    /// Jobs with a run that has not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    active_jobs: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduled_jobs: Option<u32>,
    /// Tasks of such runs that are not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    queued_tasks: Option<u64>,
}

impl From<Quotas> for QuotasJson {
    fn from(quotas: Quotas) -> QuotasJson {
        let Quotas { active_jobs, scheduled_jobs, queued_tasks } = quotas;
        QuotasJson { active_jobs, scheduled_jobs, queued_tasks }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "KeyKind")]
pub(crate) enum KindJson {
    Caller,
    Operator,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ApiKey")]
pub(crate) struct KeyJson {
    key_id: ApiKeyId,
    name: String,
    kind: KindJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<CallerId>,
    /// The key's last characters.
    hint: String,
    created_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<Time>,
    /// Of its caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    quotas: Option<QuotasJson>,
    /// The key itself. It is in the answer that makes it, and nowhere else.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

impl KeyJson {
    pub fn new(key_id: ApiKeyId, kept: ApiKey, quotas: Option<Quotas>) -> KeyJson {
        let ApiKey { name, opens, hint, created, revoked, .. } = kept;
        let (kind, caller) = match opens {
            Opens::Caller(caller) => (KindJson::Caller, Some(caller)),
            Opens::Operator => (KindJson::Operator, None),
        };
        let quotas = quotas.map(QuotasJson::from);
        let (created_at, revoked_at) = (Time(created), revoked.map(Time));
        KeyJson { key_id, name, kind, caller, hint, created_at, revoked_at, quotas, key: None }
    }

    #[must_use]
    pub fn showing(mut self, key: String) -> KeyJson {
        self.key = Some(key);
        self
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ApiKeys")]
pub(crate) struct KeysJson {
    pub keys: Vec<KeyJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// What a caller has right now.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "CallerUsage")]
pub(crate) struct UsedJson {
    active_jobs: u64,
    scheduled_jobs: u64,
    queued_tasks: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Caller")]
pub(crate) struct CallerJson {
    pub caller: CallerId,
    pub quotas: QuotasJson,
    pub usage: UsedJson,
    /// There are more live jobs than were counted.
    pub more: bool,
}

impl From<Used> for UsedJson {
    fn from(used: Used) -> UsedJson {
        let Used { active_jobs, scheduled_jobs, queued_tasks } = used;
        UsedJson { active_jobs, scheduled_jobs, queued_tasks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_key_has_neither_caller_nor_quotas() {
        assert!(NewKey::parse(br#"{"name":"a","operator":true}"#, &Warnings::strict()).unwrap().operator);
        for rest in [r#""caller":"01ARZ3NDEKTSV4RRFFQ69G5FAV""#, r#""quotas":{}"#] {
            let body = format!(r#"{{"name":"a","operator":true,{rest}}}"#);
            assert!(NewKey::parse(body.as_bytes(), &Warnings::strict()).is_err(), "{rest}");
        }
        for bad in [r#"{}"#, r#"{"name":""}"#, r#"{"name":"a","caller":"x"}"#, r#"{"name":"a","quota":{}}"#] {
            assert!(NewKey::parse(bad.as_bytes(), &Warnings::strict()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_change_leaves_what_it_does_not_name_and_null_takes_away() {
        let quotas = Quotas { active_jobs: Some(3), scheduled_jobs: Some(4), queued_tasks: None };
        let change =
            QuotasChange::parse(br#"{"active_jobs":null,"queued_tasks":0}"#, &Warnings::strict()).unwrap();
        let expected = Quotas { active_jobs: None, scheduled_jobs: Some(4), queued_tasks: Some(0) };
        assert_eq!(change.apply(quotas), expected);
        for bad in ["{}", r#"{"active_jobs":-1}"#, r#"{"active_jobs":10001}"#, r#"{"jobs":1}"#] {
            assert!(QuotasChange::parse(bad.as_bytes(), &Warnings::strict()).is_err(), "{bad}");
        }
    }
}
