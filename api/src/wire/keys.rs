//! Keys that operators make, and what callers may have (SPEC 6.24).

use super::limits::number;
use crate::fields::Fields;
use crate::problem::{ApiError, Result};
use crate::warnings::Warnings;
use conveyor_domain::{CallerId, Quotas, limits};

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
