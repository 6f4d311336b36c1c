//! `conveyor deliveries`: the notifications of a job, and one of them sent again.

use super::args::DeliveriesArgs;
use super::failure::Failure;
use super::http::Api;
use super::paging;
use super::print::{self, Output, clean};
use conveyor_domain::limits;
use futures::StreamExt;
use serde::Deserialize;
use std::pin::pin;
use std::process::ExitCode;

const HEADER: [&str; 7] = ["event", "type", "to", "state", "attempts", "next attempt", "last error"];
const WIDTHS: [u16; 6] = [28, 15, 16, 11, 10, 26];

#[derive(Debug, Deserialize)]
struct Row {
    event_id: String,
    event_type: String,
    target: String,
    state: String,
    attempts_made: u64,
    next_attempt_at: Option<String>,
    #[serde(default)]
    attempts: Vec<Attempt>,
}

#[derive(Debug, Deserialize)]
struct Attempt {
    error: Option<String>,
}

impl Row {
    fn cells(self) -> [String; 7] {
        let error = self.attempts.into_iter().next_back().and_then(|attempt| attempt.error);
        [
            self.event_id,
            self.event_type,
            self.target,
            self.state,
            self.attempts_made.to_string(),
            self.next_attempt_at.unwrap_or_else(|| "-".to_owned()),
            error.unwrap_or_default(),
        ]
    }
}

pub async fn run(api: &Api, args: &DeliveriesArgs, output: Output) -> Result<ExitCode, Failure> {
    match &args.replay {
        Some(event) => replay(api, &args.job, event, output).await?,
        None => list(api, &args.job, output).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn replay(api: &Api, job: &str, event: &str, output: Output) -> Result<(), Failure> {
    let url = api.url(&["jobs", job, "deliveries", event, "replay"]);
    let answer = api.post::<Row>(url, None).await?;
    if output.json {
        return print::line(&answer.text);
    }
    print::line(&clean(&format!("event {} is sent again", answer.document.event_id)))
}

async fn list(api: &Api, job: &str, output: Output) -> Result<(), Failure> {
    let mut url = api.url(&["jobs", job, "deliveries"]);
    url.query_pairs_mut().append_pair("limit", &limits::PAGE_MAX.to_string());
    let pages = paging::pages(api, url, "deliveries");
    if output.json {
        return paging::print_document(pages, "deliveries").await;
    }
    let mut pages = pin!(pages.enumerate());
    while let Some((n, page)) = pages.next().await {
        let mut table = print::plain_table();
        if n == 0 {
            table.set_header(HEADER);
        }
        for item in &page? {
            let row: Row =
                serde_json::from_str(item.get()).map_err(|e| Failure::not_understood(e.to_string()))?;
            table.add_row(row.cells().map(|cell| clean(&cell)));
        }
        print::fix_widths(&mut table, &WIDTHS);
        if n == 0 || !table.is_empty() {
            print::print_table(table)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_why_the_last_try_failed() {
        let row = r#"{"event_id": "E", "event_type": "run.completed", "target": "webhook", "state": "pending",
            "attempts_made": 2, "next_attempt_at": "T", "attempts": [{"error": "timeout"}, {"error": "http_5xx:500"}]}"#;
        let row: Row = serde_json::from_str(row).unwrap();
        assert_eq!(row.cells(), ["E", "run.completed", "webhook", "pending", "2", "T", "http_5xx:500"]);
    }
}
