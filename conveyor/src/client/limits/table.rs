//! The limits of a job as a person reads them.

use crate::client::print;
use conveyor_client::wire::{Domain, Limits, Queue, RateState, Waiting};
use serde_json::Value;

pub fn text(limits: &Limits) -> String {
    print::facts(rows(limits))
}

fn rows(limits: &Limits) -> Vec<(String, String)> {
    let row = |name: &str, value: String| (name.to_owned(), value);
    let mut rows = vec![row("job", limits.job_id.to_string())];
    rows.extend(limits.name.iter().map(|name| row("name", name.clone())));
    rows.push(row("run", limits.run_id.to_string()));
    rows.push(row("permits", format!("{} of {} held", limits.in_flight, limits.max_inflight)));
    rows.push(row("rate", limits.rate_limit.as_ref().map_or("no limit".to_owned(), rate)));
    let retry = serde_json::to_value(limits.retry).unwrap_or_default();
    let named = retry.as_object().into_iter().flatten();
    let retry: Vec<String> =
        named.map(|(name, value): (&String, &Value)| format!("{name} {value}")).collect();
    if !retry.is_empty() {
        rows.push(row("retry", retry.join(", ")));
    }
    rows.push(row("queue", queue(&limits.queue)));
    let holders = limits.holders.iter().map(|holder| {
        row("holder", format!("{}: {} permits until {}", holder.worker, holder.permits, holder.expires_at))
    });
    rows.extend(holders);
    rows.extend(limits.domains.iter().map(|of| row("domain", domain(of))));
    rows.push(row("waiting", waiting(&limits.waiting)));
    rows
}

fn queue(Queue { visible, hidden, at_least }: &Queue) -> String {
    let least = if *at_least { "at least " } else { "" };
    format!("{least}{visible} to start, {least}{hidden} in flight or waiting")
}

/// `capped: Workers hold 5 permits, and ...`
pub fn waiting(waiting: &Waiting) -> String {
    format!("{}: {}", waiting.reason, waiting.detail)
}

/// `5/s, burst 10: 3 left, next start 2026-11-16T05:00:15.912Z`
fn rate(RateState { per_second, burst, tokens, next_start_at }: &RateState) -> String {
    format!("{per_second}/s, burst {burst}: {tokens} left, next start {next_start_at}")
}

fn domain(of: &Domain) -> String {
    let most = of.max_inflight.map(|most| format!(" of {most}")).unwrap_or_default();
    let mut parts = vec![format!("{}: {}{most} held", of.domain, of.held)];
    parts.extend(of.rate_limit.as_ref().map(rate));
    parts.extend(of.held_until.as_ref().map(|until| format!("left alone until {until}")));
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_not_counted_to_its_end_says_so() {
        let queue: Queue =
            serde_json::from_value(json!({"visible": 10_000, "hidden": 3, "at_least": true})).unwrap();
        assert_eq!(super::queue(&queue), "at least 10000 to start, at least 3 in flight or waiting");
    }

    #[test]
    fn everything_has_its_line() {
        const ID: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
        let at = |second: u32| format!("2026-11-16T05:00:0{second}.000Z");
        let limits: Limits = serde_json::from_value(json!({
            "job_id": ID, "run_id": ID, "name": "n", "max_inflight": 5, "in_flight": 3, "new": 1,
            "rate_limit": {"per_second": 2.5, "burst": 4, "tokens": 1, "next_start_at": at(1)},
            "retry": {"attempts_max": 2, "base_ms": 50},
            "holders": [{"worker": ID, "permits": 3, "expires_at": at(2)}],
            "queue": {"visible": 6, "hidden": 3},
            "domains": [
                {"domain": "a.example", "held": 2, "max_inflight": 2, "held_until": at(3)},
                {"domain": "b.example", "held": 0, "rate_limit": {"per_second": 1.0, "burst": 1, "tokens": 0, "next_start_at": at(4)}},
            ],
            "waiting": {"reason": "working", "detail": "Workers are at it."},
        }))
        .unwrap();
        let lines: Vec<String> =
            rows(&limits).iter().map(|(name, value)| format!("{name}: {value}")).collect();
        assert_eq!(
            lines,
            [
                &format!("job: {ID}"),
                "name: n",
                &format!("run: {ID}"),
                "permits: 3 of 5 held",
                "rate: 2.5/s, burst 4: 1 left, next start 2026-11-16T05:00:01.000Z",
                "retry: attempts_max 2, base_ms 50",
                "queue: 6 to start, 3 in flight or waiting",
                &format!("holder: {ID}: 3 permits until 2026-11-16T05:00:02.000Z"),
                "domain: a.example: 2 of 2 held; left alone until 2026-11-16T05:00:03.000Z",
                "domain: b.example: 0 held; 1/s, burst 1: 0 left, next start 2026-11-16T05:00:04.000Z",
                "waiting: working: Workers are at it.",
            ]
        );
    }
}
