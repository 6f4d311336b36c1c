//! Keys and callers as a person reads them.

use super::document::{Caller, Key, Quotas};

pub const HEADER: [&str; 8] = ["id", "name", "opens", "ends in", "created", "revoked", "quotas", "caller"];
pub const WIDTHS: [u16; 6] = [28, 20, 10, 9, 26, 26];

pub fn cells(key: &Key) -> [String; 8] {
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    [
        key.key_id.clone(),
        key.name.clone(),
        key.kind.clone(),
        key.hint.clone(),
        key.created_at.clone(),
        or_dash(&key.revoked_at),
        quotas(&key.quotas),
        or_dash(&key.caller),
    ]
}

/// `jobs 3, tasks 1000`; a dash for none.
fn quotas(quotas: &Quotas) -> String {
    let named =
        [("jobs", quotas.active_jobs), ("scheduled", quotas.scheduled_jobs), ("tasks", quotas.queued_tasks)];
    let given: Vec<String> =
        named.iter().filter_map(|(name, limit)| limit.map(|limit| format!("{name} {limit}"))).collect();
    if given.is_empty() { "-".to_owned() } else { given.join(", ") }
}

pub fn made(key: &Key) -> Vec<(String, String)> {
    let row = |name: &str, value: &str| Some((name.to_owned(), value.to_owned()));
    let rows = [
        row("key", key.key.as_deref().unwrap_or("-")),
        row("id", &key.key_id),
        row("name", &key.name),
        row("opens", &key.kind),
        key.caller.as_deref().and_then(|caller| row("caller", caller)),
        row("quotas", &quotas(&key.quotas)).filter(|_| key.caller.is_some()),
    ];
    rows.into_iter().flatten().collect()
}

pub fn caller(caller: &Caller) -> Vec<(String, String)> {
    let Caller { quotas, usage, more, .. } = caller;
    let at_least = if *more { "at least " } else { "" };
    let row = |name: &str, used: u64, limit: Option<u64>| {
        let limit = limit.map_or_else(|| "no limit".to_owned(), |limit| format!("of {limit}"));
        (name.to_owned(), format!("{at_least}{used}, {limit}"))
    };
    vec![
        ("caller".to_owned(), caller.caller.clone()),
        row("active jobs", usage.active_jobs, quotas.active_jobs),
        row("scheduled jobs", usage.scheduled_jobs, quotas.scheduled_jobs),
        row("queued tasks", usage.queued_tasks, quotas.queued_tasks),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_key_is_a_line_and_a_caller_a_few() {
        let key: Key = serde_json::from_value(json!({
            "key_id": "K", "name": "billing", "kind": "caller", "caller": "C", "hint": "abcd", "created_at": "T",
            "quotas": {"active_jobs": 3, "queued_tasks": 1000}, "key": "cvk_0",
        }))
        .unwrap();
        assert_eq!(cells(&key), ["K", "billing", "caller", "abcd", "T", "-", "jobs 3, tasks 1000", "C"]);
        let rows = made(&key);
        assert_eq!(rows[0], ("key".to_owned(), "cvk_0".to_owned()));
        let shown: Caller = serde_json::from_value(json!({
            "caller": "C", "quotas": {"active_jobs": 3}, "usage": {"active_jobs": 2, "scheduled_jobs": 0, "queued_tasks": 7},
        }))
        .unwrap();
        let values: Vec<String> = caller(&shown).into_iter().map(|(_, value)| value).collect();
        assert_eq!(values, ["C", "2, of 3", "0, no limit", "7, no limit"]);
    }
}
