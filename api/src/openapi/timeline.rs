//! What the timeline of a job can say (SPEC 6.12): every type of an event, when it happens, and what `data` then has.

/// A test holds it against the table in SPEC.md.
const EVENTS: [(&str, &str, &str); 33] = [
    ("job.submitted", "a job was made", "`tasks`, `open`"),
    ("tasks.added", "tasks were added to an open job", "`tasks`"),
    ("job.closed", "an open job takes no more tasks", ""),
    ("job.deleted", "a job was deleted", ""),
    (
        "run.started",
        "another run began: a rerun, or by a schedule",
        "`run_sequence`, `trigger`; `rerun_of` of a rerun",
    ),
    ("run.pending", "nothing left to do for now; more tasks may come", ""),
    ("run.resumed", "tasks came to a run that was pending", ""),
    (
        "run.paused",
        "it starts nothing more for now",
        "`pause_reason` {`code`, `detail`} if nobody asked for it",
    ),
    ("run.unpaused", "it goes on", ""),
    ("run.completed", "every task has ended", "`total`"),
    ("run.stopped", "somebody ended it early", ""),
    (
        "run.failed",
        "the whole run failed",
        "`failure_reason`: of a list its own code, such as `source_truncated`; `failure_detail`",
    ),
    ("run.deleted", "it was deleted", ""),
    (
        "limits.changed",
        "the limits of a job were changed",
        "`max_inflight`; `rate_limit` {`per_second`, `burst`} if there is one",
    ),
    (
        "schedule.fired",
        "a schedule made this run",
        "`scheduled_for`, `next_scheduled_run` (null if nothing is left)",
    ),
    ("schedule.skipped", "a schedule made no run, because this one had not ended", "the same"),
    ("schedule.changed", "another rule, or paused, or going on", "`schedule_state`, `next_scheduled_run`"),
    ("webhook.changed", "the webhook was set", ""),
    ("webhook.removed", "the webhook was taken away", ""),
    ("webhook.disabled", "the receiver wants nothing more", "`reason`"),
    (
        "ingest.accepted",
        "a list was accepted, and is to be read",
        "`file_input_id`, `format`, `size_bytes`, `on_invalid_rows`; `sha256` where it is known",
    ),
    ("ingest.replaying", "the tasks of an earlier run are to be read", "`rerun_of`, `selection`"),
    (
        "ingest.source_pinned",
        "the list was opened",
        "`format`, `compression`; of CSV also `delimiter`, `quote`, `columns`",
    ),
    ("ingest.validated", "every row was checked before the first was written", "`rows`"),
    ("ingest.counted", "every record was read, before the first row was written", "`records`, `rows`"),
    (
        "ingest.chunk_committed",
        "some rows are there",
        "`chunk`, `rows`, `rejected`, `next` {`offset`, `line`, `index`}; `inherited` of a rerun; `unknown_fields` {name: rows} if some were ignored",
    ),
    ("ingest.total_set", "it is known how many tasks there are", "`total`"),
    ("ingest.latched", "no more tasks come from this list", ""),
    ("ingest.cut", "the run ended while its list was read", "`total`"),
    ("ingest.failed", "the list cannot be taken", "`code`, `detail`, `rejected`; `line` if it is about one"),
    (
        "ingest.attempt_failed",
        "a try came to nothing, for a reason that may pass",
        "`error`, `dead_lettered`",
    ),
    ("ingest.resent", "nothing had happened for long: the ingester was called again", ""),
    ("ingest.redriven", "an operator sent a dead letter again", ""),
];

pub(super) fn types() -> Vec<&'static str> {
    EVENTS.iter().map(|(kind, ..)| *kind).collect()
}

/// What each type means.
pub(super) fn meanings() -> String {
    list(EVENTS.iter().map(|(kind, happened, _)| format!("- `{kind}`: {happened}")))
}

/// What `data` has with each type.
pub(super) fn data() -> String {
    let has = |data: &str| if data.is_empty() { "nothing".to_owned() } else { data.to_owned() };
    list(EVENTS.iter().map(|(kind, _, data)| format!("- `{kind}`: {}", has(data))))
}

fn list(lines: impl Iterator<Item = String>) -> String {
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::{IngestEvent, LifecycleEvent};
    use serde::de::DeserializeOwned;
    use serde_json::json;

    #[test]
    fn the_specification_has_the_same_table() {
        let spec = include_str!("../../../docs/spec/events.md");
        let section = spec.split("\n## ").find(|section| section.starts_with("6.12 ")).unwrap();
        let row = |line: &'static str| {
            let mut cells = line.strip_prefix("| `")?.strip_suffix('|')?.split('|').map(str::trim);
            Some((cells.next()?.trim_end_matches('`'), cells.next()?, cells.next()?))
        };
        assert_eq!(section.lines().filter_map(row).collect::<Vec<_>>(), EVENTS);
    }

    /// What serde says that it knows, when it is given something else.
    fn variants<T: DeserializeOwned + std::fmt::Debug>() -> Vec<String> {
        let error = serde_json::from_value::<T>(json!({"event": "none of them"})).unwrap_err().to_string();
        let (_, known) = error.split_once("expected one of ").unwrap();
        known.split(", ").map(|name| name.trim_matches('`').to_owned()).collect()
    }

    #[test]
    fn every_event_that_can_be_stored_is_there() {
        let (own, of_lists): (Vec<&str>, Vec<&str>) =
            types().into_iter().partition(|kind| !kind.starts_with("ingest."));
        assert_eq!(own.len(), variants::<LifecycleEvent>().len());
        let stored: Vec<String> =
            variants::<IngestEvent>().iter().map(|name| format!("ingest.{name}")).collect();
        assert_eq!(of_lists, stored);
    }
}
