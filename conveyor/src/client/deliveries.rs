//! `conveyor deliveries`: the notifications of a job, and one of them sent again.

use super::args::DeliveriesArgs;
use super::failure::Failure;
use super::print::{self, Output, clean};
use super::table::{self, Column, or_dash};
use conveyor_client::Client;
use conveyor_client::wire::Delivery;
use conveyor_domain::limits;
use std::process::ExitCode;

const COLUMNS: [Column<Delivery>; 7] = [
    ("event", 28, |delivery| delivery.event_id.to_string()),
    ("type", 15, |delivery| delivery.event_type.to_string()),
    ("to", 16, |delivery| delivery.target.to_string()),
    ("state", 11, |delivery| delivery.state.to_string()),
    ("attempts", 10, |delivery| delivery.attempts_made.to_string()),
    ("next attempt", 26, |delivery| or_dash(delivery.next_attempt_at.as_ref())),
    ("last error", 0, |delivery| {
        delivery.attempts.last().and_then(|attempt| attempt.error.clone()).unwrap_or_default()
    }),
];

pub async fn run(api: &Client, args: &DeliveriesArgs, output: Output) -> Result<ExitCode, Failure> {
    let Some(event) = &args.replay else {
        let deliveries = api.deliveries(&args.job).query("limit", limits::PAGE_MAX);
        table::list(deliveries, &COLUMNS, output).await?;
        return Ok(ExitCode::SUCCESS);
    };
    let answer = api.replay(&args.job, event).await?;
    if output.json {
        print::line(&answer.text)?;
    } else {
        print::line(&clean(&format!("event {} is sent again", answer.event_id)))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_says_why_the_last_try_failed() {
        const T: &str = "2026-11-16T05:00:15.912Z";
        const ID: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
        let row = json!({"event_id": ID, "event_type": "run.completed", "target": "webhook", "run_id": ID,
            "state": "pending", "occurred_at": T, "attempts_made": 2, "next_attempt_at": T,
            "attempts": [{"started_at": T, "error": "timeout"}, {"started_at": T, "error": "http_5xx:500"}]});
        let row: Delivery = serde_json::from_value(row).unwrap();
        let cells = COLUMNS.map(|(.., cell)| cell(&row));
        assert_eq!(cells[1..], ["run.completed", "webhook", "pending", "2", T, "http_5xx:500"]);
    }
}
