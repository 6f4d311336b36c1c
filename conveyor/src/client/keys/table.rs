//! Keys and callers as a person reads them.

use crate::client::table::{Column, or_dash};
use conveyor_client::wire::{ApiKey, Caller, Quotas};

pub const COLUMNS: [Column<ApiKey>; 8] = [
    ("id", 28, |key| key.key_id.to_string()),
    ("name", 20, |key| key.name.clone()),
    ("opens", 10, |key| key.kind.to_string()),
    ("ends in", 9, |key| key.hint.clone()),
    ("created", 26, |key| key.created_at.to_string()),
    ("revoked", 26, |key| or_dash(key.revoked_at.as_ref())),
    ("quotas", 0, |key| quotas(key.quotas.as_ref())),
    ("caller", 0, |key| or_dash(key.caller.as_ref())),
];

/// `jobs 3, tasks 1000`; a dash for none.
fn quotas(quotas: Option<&Quotas>) -> String {
    let Quotas { active_jobs, scheduled_jobs, queued_tasks } = quotas.copied().unwrap_or_default();
    let named = [
        ("jobs", active_jobs.map(u64::from)),
        ("scheduled", scheduled_jobs.map(u64::from)),
        ("tasks", queued_tasks),
    ];
    let given: Vec<String> =
        named.iter().filter_map(|(name, limit)| limit.map(|limit| format!("{name} {limit}"))).collect();
    if given.is_empty() { "-".to_owned() } else { given.join(", ") }
}

pub fn made(key: &ApiKey) -> Vec<(String, String)> {
    let rows = [
        ("key", Some(or_dash(key.key.as_ref()))),
        ("id", Some(key.key_id.to_string())),
        ("name", Some(key.name.clone())),
        ("opens", Some(key.kind.to_string())),
        ("caller", key.caller.map(|caller| caller.to_string())),
        ("quotas", key.caller.map(|_| quotas(key.quotas.as_ref()))),
    ];
    rows.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

pub fn caller(caller: &Caller) -> Vec<(String, String)> {
    let Caller { quotas, usage, more, .. } = caller;
    let at_least = if *more { "at least " } else { "" };
    let row = |name: &str, used: u64, limit: Option<u64>| {
        let limit = limit.map_or_else(|| "no limit".to_owned(), |limit| format!("of {limit}"));
        (name.to_owned(), format!("{at_least}{used}, {limit}"))
    };
    vec![
        ("caller".to_owned(), caller.caller.to_string()),
        row("active jobs", usage.active_jobs, quotas.active_jobs.map(u64::from)),
        row("scheduled jobs", usage.scheduled_jobs, quotas.scheduled_jobs.map(u64::from)),
        row("queued tasks", usage.queued_tasks, quotas.queued_tasks),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_key_is_a_line_and_a_caller_a_few() {
        const K: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
        const C: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAC";
        const T: &str = "2026-11-16T05:00:15.912Z";
        let key: ApiKey = serde_json::from_value(json!({
            "key_id": K, "name": "billing", "kind": "caller", "caller": C, "hint": "abcd", "created_at": T,
            "quotas": {"active_jobs": 3, "queued_tasks": 1000}, "key": "cvk_0",
        }))
        .unwrap();
        let cells = COLUMNS.map(|(.., cell)| cell(&key));
        assert_eq!(cells, [K, "billing", "caller", "abcd", T, "-", "jobs 3, tasks 1000", C]);
        let rows = made(&key);
        assert_eq!(rows[0], ("key".to_owned(), "cvk_0".to_owned()));
        let shown: Caller = serde_json::from_value(json!({
            "caller": C, "quotas": {"active_jobs": 3}, "more": false,
            "usage": {"active_jobs": 2, "scheduled_jobs": 0, "queued_tasks": 7},
        }))
        .unwrap();
        let values: Vec<String> = caller(&shown).into_iter().map(|(_, value)| value).collect();
        assert_eq!(values, [C, "2, of 3", "0, no limit", "7, no limit"]);
    }
}
