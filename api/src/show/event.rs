//! The timeline of a job, as callers see it: no keys of objects, no more of a list than its own caller knows.

use super::{Time, rate};
use conveyor_domain::ingest::Source;
use conveyor_domain::ingest::list::Layout;
use conveyor_domain::{IngestEvent, JobEvent, LifecycleEvent, RunId, TimelineEntry};
use conveyor_wire as wire;
use serde_json::{Value, json};

/// `hidden`: the run that keeps the tasks of a scheduled job, which nobody can look at.
pub(crate) fn event(entry: &TimelineEntry, hidden: Option<RunId>) -> wire::Event {
    let (kind, data) = match &entry.event {
        JobEvent::Lifecycle(event) => (event.kind().to_owned(), of_lifecycle(event, hidden)),
        JobEvent::Ingest(event) => (format!("ingest.{}", event.name()), of_ingest(event, hidden)),
    };
    let run_id = Some(entry.run).filter(|run| Some(*run) != hidden);
    wire::Event { id: entry.number, kind, at: Time(entry.at), run_id, data }
}

fn of_lifecycle(event: &LifecycleEvent, hidden: Option<RunId>) -> Value {
    match event {
        LifecycleEvent::Submitted { tasks, open } => json!({"tasks": tasks, "open": open}),
        LifecycleEvent::TasksAdded { tasks } => json!({"tasks": tasks}),
        LifecycleEvent::RunStarted { sequence, trigger, rerun_of } => {
            let mut data = json!({"run_sequence": sequence, "trigger": trigger});
            if let Some(earlier) = rerun_of.filter(|earlier| Some(*earlier) != hidden) {
                data["rerun_of"] = json!(earlier);
            }
            data
        }
        LifecycleEvent::LimitsChanged { max_inflight, rate: limit } => {
            let mut data = json!({"max_inflight": max_inflight});
            if let Some(limit) = limit {
                data["rate_limit"] = json!(rate(*limit));
            }
            data
        }
        LifecycleEvent::RunCompleted { total } => json!({"total": total}),
        LifecycleEvent::ScheduleFired { due, next } | LifecycleEvent::ScheduleSkipped { due, next } => {
            json!({"scheduled_for": Time(*due), "next_scheduled_run": next.map(Time)})
        }
        LifecycleEvent::ScheduleChanged { state, next } => {
            json!({"schedule_state": state, "next_scheduled_run": next.map(Time)})
        }
        LifecycleEvent::RunFailed { failure: Some(failure) } => {
            json!({"failure_reason": failure.reason, "failure_detail": failure.detail})
        }
        LifecycleEvent::RunPaused { reason: Some(reason) } => json!({ "pause_reason": reason }),
        LifecycleEvent::WebhookDisabled { reason } => json!({"reason": reason}),
        LifecycleEvent::RunFailed { failure: None }
        | LifecycleEvent::RunResumed
        | LifecycleEvent::RunPending
        | LifecycleEvent::RunPaused { reason: None }
        | LifecycleEvent::RunUnpaused
        | LifecycleEvent::WebhookChanged
        | LifecycleEvent::WebhookRemoved
        | LifecycleEvent::Closed
        | LifecycleEvent::RunStopped
        | LifecycleEvent::RunDeleted
        | LifecycleEvent::Deleted => json!({}),
    }
}

fn of_ingest(event: &IngestEvent, hidden: Option<RunId>) -> Value {
    match event {
        IngestEvent::Accepted { source } => of_source(source),
        IngestEvent::Replaying { replay } if Some(replay.run) == hidden => json!({}),
        IngestEvent::Replaying { replay } => json!({"rerun_of": replay.run, "selection": replay.selection}),
        IngestEvent::SourcePinned { compression, layout } => {
            let mut data = of_layout(layout);
            data["compression"] = compression.as_str().into();
            data
        }
        IngestEvent::Validated { rows } => json!({"rows": rows}),
        IngestEvent::Counted { records, rows } => json!({"records": records, "rows": rows}),
        IngestEvent::ChunkCommitted { chunk, rows, rejected, next, report: _, inherited, unknown } => {
            let mut data = json!({"chunk": chunk, "rows": rows, "rejected": rejected, "next": next});
            if !inherited.is_zero() {
                data["inherited"] = inherited.completed().into();
            }
            if !unknown.is_empty() {
                data["unknown_fields"] = json!(unknown.named);
            }
            data
        }
        IngestEvent::TotalSet { total } | IngestEvent::Cut { total } => json!({"total": total}),
        IngestEvent::Failed { fault, detail, line, report: _, rejected } => {
            let mut data = json!({"code": fault, "detail": detail, "rejected": rejected});
            if let Some(line) = line {
                data["line"] = (*line).into();
            }
            data
        }
        IngestEvent::AttemptFailed { error, dead_lettered } => {
            json!({"error": error, "dead_lettered": dead_lettered})
        }
        IngestEvent::Latched | IngestEvent::Resent | IngestEvent::Redriven => json!({}),
    }
}

fn of_source(source: &Source) -> Value {
    let mut data = json!({
        "file_input_id": source.upload,
        "format": wire::ListType::from(&source.spec),
        "size_bytes": source.staged.size,
        "on_invalid_rows": source.on_invalid_rows,
    });
    if let Some(sha256) = source.staged.sha256() {
        data["sha256"] = sha256.into();
    }
    data
}

fn of_layout(layout: &Layout) -> Value {
    match layout {
        Layout::Csv { delimiter, quote, url, external_id } => {
            let mut columns = json!({"url": url});
            if let Some(column) = external_id {
                columns["external_id"] = (*column).into();
            }
            let (delimiter, quote) = (char::from(*delimiter), char::from(*quote));
            json!({"format": "csv", "delimiter": delimiter, "quote": quote, "columns": columns})
        }
        Layout::Jsonl => json!({"format": "jsonl"}),
        Layout::Lines => json!({"format": "lines"}),
    }
}
