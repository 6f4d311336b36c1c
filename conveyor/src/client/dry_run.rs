//! `conveyor submit --dry-run`: what a list would come to, without a job being made of it (SPEC 6.23).

use super::failure::Failure;
use super::print::{self, Output, clean};
use super::submit::Submission;
use conveyor_client::Client;
use conveyor_client::wire::{Assumes, DomainCount, DryRun, Estimate, InvalidTask};
use conveyor_domain::ingest::estimate::{Basis, Bound};
use std::process::ExitCode;
use std::time::Duration;

/// Invalid rows, and domains, that a person is shown.
const SHOWN_MAX: usize = 10;

/// Asks, and prints the answer. `place` says where in the user's lists a row is.
pub async fn run(
    api: &Client,
    job: &Submission,
    place: impl Fn(&InvalidTask) -> Option<String>,
    output: Output,
) -> Result<ExitCode, Failure> {
    let answer = api.dry_run(job).await?;
    match output.json {
        true => print::line(&answer.text)?,
        false => print::line(&print::facts(facts(&answer.document, place)))?,
    }
    // Like the submit itself.
    Ok(if answer.would_answer < 400 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn facts(report: &DryRun, place: impl Fn(&InvalidTask) -> Option<String>) -> Vec<(String, String)> {
    let row = |name: &str, value: String| (name.to_owned(), value);
    let mut rows = vec![
        row("rows", report.rows.to_string()),
        row("valid", report.valid.to_string()),
        row("invalid", report.invalid.to_string()),
    ];
    for invalid in report.invalid_tasks.iter().take(SHOWN_MAX) {
        let place = place(invalid).unwrap_or_else(|| format!("row {}", invalid.index));
        rows.push(row(&format!("  {}", clean(&place)), format!("{}: {}", invalid.reason, invalid.value)));
    }
    let at_least = if report.domains.exact { "" } else { "at least " };
    rows.push(row("duplicates", report.duplicates.to_string()));
    rows.push(row("domains", format!("{at_least}{}", report.domains.count)));
    for DomainCount { domain, tasks } in report.domains.top.iter().take(SHOWN_MAX) {
        rows.push(row(&format!("  {}", clean(domain)), tasks.to_string()));
    }
    rows.push(row("would be", fate(report.would_answer).to_owned()));
    rows.push(row("would take", duration(&report.estimate)));
    rows
}

fn fate(would_answer: u16) -> &'static str {
    match would_answer {
        201 => "accepted and written at once",
        202 => "accepted, and read in the background",
        _ => "refused, because of its invalid rows",
    }
}

fn duration(estimate: &Estimate) -> String {
    let seconds = Duration::try_from_secs_f64(estimate.seconds.ceil()).unwrap_or_default();
    let about = indicatif::HumanDuration(seconds);
    let because = match &estimate.bound_by {
        bound if *bound == Bound::None => String::new(),
        bound => format!(", because of {bound}"),
    };
    format!("about {about}{because}{}", assumed(&estimate.assumes))
}

/// What the estimate stands or falls with.
fn assumed(Assumes { seconds_per_task, basis, measured_tasks, .. }: &Assumes) -> String {
    match basis.known() {
        Some(Basis::Measured) => format!(
            ", if a task takes {seconds_per_task} s, as the last {} that were measured did",
            measured_tasks.unwrap_or_default()
        ),
        Some(Basis::BuiltInGateway) => ", with the gateway that is built in".to_owned(),
        Some(Basis::NothingMeasured) => {
            format!(", if a task takes {seconds_per_task} s: none was measured yet")
        }
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_person_is_told_what_is_wrong_and_how_long_it_takes() {
        let report: DryRun = serde_json::from_value(json!({
            "dry_run": true, "rows": 4, "valid": 3, "invalid": 1, "duplicates": 1, "would_answer": 202,
            "invalid_tasks": [{"index": 3, "line": 5, "reason": "malformed_url", "value": "x"}],
            "domains": {"count": 100_000, "exact": false, "top": [{"domain": "a.example", "tasks": 2}]},
            "estimate": {"seconds": 119.2, "bound_by": "rate_limit", "assumes": {"seconds_per_task": 2.0, "basis": "nothing_measured", "attempts_per_task": 1, "max_inflight": 1}},
        }))
        .unwrap();
        let rows = facts(&report, |row| Some(format!("urls.txt:{}", row.line?)));
        let value = |name: &str| rows.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
        assert_eq!(value("  urls.txt:5"), Some("malformed_url: x"));
        assert_eq!(value("domains"), Some("at least 100000"));
        assert_eq!(value("  a.example"), Some("2"));
        assert_eq!(value("would be"), Some("accepted, and read in the background"));
        assert_eq!(
            value("would take"),
            Some("about 2 minutes, because of rate_limit, if a task takes 2 s: none was measured yet")
        );
    }
}
