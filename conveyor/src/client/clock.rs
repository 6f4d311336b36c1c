//! `conveyor clock`: the time that removals go by.

use super::args::{ClockArgs, ClockCommand};
use super::failure::Failure;
use super::http::{Answer, Api};
use super::print::{self, Output};
use serde::Deserialize;
use std::process::ExitCode;

#[derive(Debug, Deserialize)]
struct Clock {
    now: String,
    skew_ms: Option<i64>,
    seen_at: Option<String>,
    removal: String,
    believed_at: Option<String>,
}

pub async fn run(api: &Api, args: &ClockArgs, output: Output) -> Result<ExitCode, Failure> {
    let answer: Answer<Clock> = match args.command {
        ClockCommand::Show(_) => api.get(api.url(&["admin", "clock"])).await?,
        // Repeating it changes nothing.
        ClockCommand::Confirm(_) => api.post_again(api.url(&["admin", "clock", "confirm"]), None).await?,
    };
    print::line(&if output.json { answer.text } else { print::facts(rows(answer.document)) })?;
    Ok(ExitCode::SUCCESS)
}

fn rows(clock: Clock) -> Vec<(String, String)> {
    let rows = [
        ("now", Some(clock.now)),
        ("skew", clock.skew_ms.map(|ms| format!("{ms} ms"))),
        ("seen", clock.seen_at),
        ("removal", Some(clock.removal)),
        ("believed from", clock.believed_at),
    ];
    rows.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
