//! `conveyor events`: what happened to a job, and what is happening.

use super::args::EventsArgs;
use super::failure::Failure;
use super::print::{self, Output, clean};
use super::progress::ctrl_c;
use super::table;
use conveyor_client::wire::Event;
use conveyor_client::{Client, Raw};
use conveyor_domain::job::failure::cut;
use conveyor_domain::limits;
use futures::TryStreamExt;
use serde_json::Value;
use std::fmt::Write;
use std::pin::pin;
use std::process::ExitCode;

const TYPE_CHARS: usize = 24;
/// The end of a run's id, which is what tells it from others of its time.
const RUN_CHARS: usize = 8;
const DETAIL_CHARS_MAX: usize = 200;

pub async fn run(api: &Client, args: &EventsArgs, output: Output) -> Result<ExitCode, Failure> {
    let events = api.events(&args.job).query("limit", limits::EVENTS_PAGE_MAX);
    if args.follow {
        tokio::select! {
            biased;
            () = ctrl_c() => return Err(Failure::events_interrupted(&args.job)),
            followed = follow(api, &args.job, output) => followed?,
        }
    } else if output.json {
        table::document(events).await?;
    } else {
        let mut events = pin!(events.items());
        while let Some(event) = events.try_next().await? {
            print::line(&line(&event))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn follow(api: &Client, job: &str, output: Output) -> Result<(), Failure> {
    let mut events = api.follow(job, 0);
    while let Some(event) = events.try_next().await? {
        print::line(&if output.json { one_line(&event)? } else { line(&event.read()?) })?;
    }
    Ok(())
}

/// Parsed and written again: what was sent may have line breaks.
fn one_line(event: &Raw<Event>) -> Result<String, Failure> {
    let value: Value =
        serde_json::from_str(event.text()).map_err(|e| Failure::not_understood(e.to_string()))?;
    Ok(value.to_string())
}

/// `2026-11-16T05:00:15.912Z  ingest.chunk_committed    TY2X4S81  chunk=0 rows=5000`
fn line(event: &Event) -> String {
    let run = event.run_id.map(|run| run.to_string()).unwrap_or_default();
    let run = &run[run.len().saturating_sub(RUN_CHARS)..];
    let text =
        format!("{}  {:TYPE_CHARS$}  {run:RUN_CHARS$}  {}", event.at, event.kind, details(&event.data));
    clean(text.trim_end())
}

fn details(data: &Value) -> String {
    let mut text = String::new();
    for (name, value) in data.as_object().into_iter().flatten() {
        let _ = match value {
            Value::Null => Ok(()),
            Value::String(value) if !value.contains(' ') => write!(text, "{name}={value} "),
            value => write!(text, "{name}={value} "),
        };
    }
    cut(text.trim_end(), DETAIL_CHARS_MAX).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_is_a_line() {
        let event = json!({"id": 7, "type": "ingest.chunk_committed", "at": "2026-11-16T05:00:15.912Z",
            "run_id": "01M7HBMCN8SGACPZPC2PMC4YES", "data": {"chunk": 0, "rows": 5000, "report": null}});
        let event: Event = serde_json::from_value(event).unwrap();
        assert_eq!(
            line(&event),
            "2026-11-16T05:00:15.912Z  ingest.chunk_committed    2PMC4YES  chunk=0 rows=5000"
        );
        let bare = json!({"id": 1, "type": "job.closed", "at": "2026-11-16T05:00:15.912Z", "data": {}});
        let bare: Event = serde_json::from_value(bare).unwrap();
        assert_eq!(line(&bare), "2026-11-16T05:00:15.912Z  job.closed");
    }

    #[test]
    fn details_are_short_and_quoted_where_they_have_to_be() {
        let data = json!({"code": "no_valid_rows", "detail": "no \u{1b}row", "next": {"line": 3}});
        assert_eq!(details(&data), "code=no_valid_rows detail=\"no \\u001brow\" next={\"line\":3}");
        assert_eq!(details(&json!({"x": "y".repeat(500)})).len(), DETAIL_CHARS_MAX);
    }
}
