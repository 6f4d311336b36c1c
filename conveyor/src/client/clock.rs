//! `conveyor clock`: the time that removals go by.

use super::args::{ClockArgs, ClockCommand};
use super::failure::Failure;
use super::print::{self, Output};
use conveyor_client::Client;
use conveyor_client::wire::Clock;
use std::process::ExitCode;

pub async fn run(api: &Client, args: &ClockArgs, output: Output) -> Result<ExitCode, Failure> {
    let answer = match args.command {
        ClockCommand::Show(_) => api.clock().await?,
        ClockCommand::Confirm(_) => api.confirm_clock().await?,
    };
    print::line(&if output.json { answer.text } else { print::facts(rows(answer.document)) })?;
    Ok(ExitCode::SUCCESS)
}

fn rows(clock: Clock) -> Vec<(String, String)> {
    let rows = [
        ("now", Some(clock.now.to_string())),
        ("skew", clock.skew_ms.map(|ms| format!("{ms} ms"))),
        ("seen", clock.seen_at.map(|at| at.to_string())),
        ("removal", Some(clock.removal.to_string())),
        ("believed from", clock.believed_at.map(|at| at.to_string())),
    ];
    rows.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
