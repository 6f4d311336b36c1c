//! `conveyor events`: what happened to a job, and what is happening.

use super::args::EventsArgs;
use super::document::Job;
use super::failure::Failure;
use super::http::{Answer, Api, Attempt, Patience};
use super::paging::{self, Items};
use super::print::{self, Output, clean};
use super::progress::ctrl_c;
use super::sse::{Message, Parser};
use conveyor_domain::job::failure::cut;
use conveyor_domain::limits;
use futures::{Stream, TryStreamExt};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::fmt::Write;
use std::pin::pin;
use std::process::ExitCode;

const TYPE_CHARS: usize = 24;
/// The end of a run's id, which is what tells it from others of its time.
const RUN_CHARS: usize = 8;
const DETAIL_CHARS_MAX: usize = 200;

#[derive(Debug, Deserialize)]
struct Event {
    id: Number,
    #[serde(rename = "type")]
    kind: String,
    at: String,
    run_id: Option<String>,
    #[serde(default)]
    data: Value,
}

/// The number of an event: some would write it as text.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "Value")]
struct Number(u64);

impl TryFrom<Value> for Number {
    type Error = &'static str;

    fn try_from(value: Value) -> Result<Number, &'static str> {
        let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
        number.map(Number).ok_or("an event id that is no number")
    }
}

pub async fn run(api: &Api, args: &EventsArgs, output: Output) -> Result<ExitCode, Failure> {
    if args.follow {
        let mut follower = Follower { api, job: &args.job, output, last: 0 };
        tokio::select! {
            biased;
            () = ctrl_c() => return Err(Failure::events_interrupted(&args.job)),
            followed = follower.follow() => followed?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    if output.json {
        paging::print_document(pages(api, &args.job), "events").await?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut pages = pin!(pages(api, &args.job));
    while let Some(page) = pages.try_next().await? {
        for event in &page {
            print::line(&line(&parse(event)?))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn pages<'a>(api: &'a Api, job: &str) -> impl Stream<Item = Result<Items, Failure>> + use<'a> {
    let mut url = api.url(&["jobs", job, "events"]);
    url.query_pairs_mut().append_pair("limit", &limits::EVENTS_PAGE_MAX.to_string());
    paging::pages(api, url, "events")
}

fn parse(event: &RawValue) -> Result<Event, Failure> {
    serde_json::from_str(event.get()).map_err(|e| Failure::not_understood(format!("an event: {e}")))
}

struct Follower<'a> {
    api: &'a Api,
    job: &'a str,
    output: Output,
    /// The event that was printed last.
    last: u64,
}

impl Follower<'_> {
    /// Prints events until the run is over. A stream that breaks off is taken up again behind the last event.
    async fn follow(&mut self) -> Result<(), Failure> {
        let mut retries = 0;
        loop {
            let before = self.last;
            let heard = self.listen().await;
            if self.last > before {
                retries = 0;
            }
            let asked = match heard {
                Ok(true) => return self.print_rest().await,
                Ok(false) => None,
                Err(Attempt::Retry(_, asked)) if retries < Patience::LONG.retries_max => asked,
                Err(attempt) => match attempt.into_failure() {
                    // It was there: it has been deleted meanwhile.
                    failure if failure.is_not_found() && self.last > 0 => return Ok(()),
                    failure => return Err(failure),
                },
            };
            tokio::time::sleep(Patience::LONG.wait(retries, asked)).await;
            retries = retries.saturating_add(1);
        }
    }

    /// Listens until the run is over or the server has no more to say, and tells which.
    async fn listen(&mut self) -> Result<bool, Attempt> {
        let url = self.api.url(&["jobs", self.job, "events"]);
        let mut response = self.api.stream(url, "text/event-stream", Some(&self.last.to_string())).await?;
        let mut parser = Parser::default();
        let mut ending = false;
        while let Some(piece) = self.api.piece(&mut response).await? {
            let too_long = |_| Failure::not_understood("an event without end");
            for message in parser.feed(piece.as_ref()).map_err(too_long)? {
                ending |= self.take(&message)?;
            }
            // The list of a run that was stopped may still have to be cut: its events come last.
            if ending && self.is_over().await? {
                return Ok(true);
            }
        }
        self.is_over().await
    }

    /// Prints an event, and says whether a run has ended with it.
    fn take(&mut self, message: &Message) -> Result<bool, Failure> {
        let event: Box<RawValue> = serde_json::from_str(&message.data)
            .map_err(|e| Failure::not_understood(format!("an event: {e}")))?;
        self.print(&event)
    }

    fn print(&mut self, raw: &RawValue) -> Result<bool, Failure> {
        let event = parse(raw)?;
        if event.id.0 > self.last {
            self.last = event.id.0;
            if self.output.json {
                // Written anew: what was sent may have line breaks.
                let value: Value =
                    serde_json::from_str(raw.get()).map_err(|e| Failure::not_understood(e.to_string()))?;
                print::line(&value.to_string())?;
            } else {
                print::line(&line(&event))?;
            }
        }
        Ok(matches!(event.kind.as_str(), "run.completed" | "run.stopped" | "run.failed" | "run.deleted"))
    }

    /// Whether nothing more will happen to the latest run. A job that is gone is over too.
    async fn is_over(&self) -> Result<bool, Attempt> {
        let found: Result<Option<Answer<Job>>, Failure> =
            self.api.find(self.api.url(&["jobs", self.job])).await;
        // A server that ends its streams is often one that is being restarted.
        let job = found.map_err(|failure| match failure.may_pass() {
            true => Attempt::Retry(failure, None),
            false => Attempt::GiveUp(failure),
        })?;
        let run = job.and_then(|answer| answer.document.latest_run);
        Ok(run.is_none_or(|run| run.is_over() && !run.is_ingesting()))
    }

    /// What the stream did not come to tell. A job that is gone has no more to tell.
    async fn print_rest(&mut self) -> Result<(), Failure> {
        let mut pages = pin!(pages(self.api, self.job));
        loop {
            match pages.try_next().await {
                Ok(Some(page)) => {
                    for event in &page {
                        self.print(event)?;
                    }
                }
                Ok(None) => return Ok(()),
                Err(failure) if failure.is_not_found() => return Ok(()),
                Err(failure) => return Err(failure),
            }
        }
    }
}

/// `2026-11-16T05:00:15.912Z  ingest.chunk_committed    TY2X4S81  chunk=0 rows=5000`
fn line(event: &Event) -> String {
    let run = event.run_id.as_deref().unwrap_or_default();
    let run = run.get(run.len().saturating_sub(RUN_CHARS)..).unwrap_or(run);
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
        let event = json!({"id": "7", "type": "ingest.chunk_committed", "at": "2026-11-16T05:00:15.912Z",
            "run_id": "01M7HBMCN8SGACPZPC2PMC4YES", "data": {"chunk": 0, "rows": 5000, "report": null}});
        let event: Event = serde_json::from_value(event).unwrap();
        assert_eq!(event.id.0, 7);
        assert_eq!(
            line(&event),
            "2026-11-16T05:00:15.912Z  ingest.chunk_committed    2PMC4YES  chunk=0 rows=5000"
        );
        let bare: Event = serde_json::from_value(
            json!({"id": 1, "type": "job.closed", "at": "then", "run_id": "é1234567"}),
        )
        .unwrap();
        assert_eq!(line(&bare), "then  job.closed                é1234567");
    }

    #[test]
    fn details_are_short_and_quoted_where_they_have_to_be() {
        let data = json!({"code": "no_valid_rows", "detail": "no \u{1b}row", "next": {"line": 3}});
        assert_eq!(details(&data), "code=no_valid_rows detail=\"no \\u001brow\" next={\"line\":3}");
        assert_eq!(details(&json!({"x": "y".repeat(500)})).len(), DETAIL_CHARS_MAX);
    }
}
