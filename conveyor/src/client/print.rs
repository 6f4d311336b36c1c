//! Standard output: tables for people, one document for programs.

use super::failure::Failure;
use super::ingest;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};
use conveyor_client::wire::{Ingest, IngestState, Job, PauseReason, RowWarning, Run, Spend, Stats};
use std::io::{self, IsTerminal, Write};

const BAR_CHARS: u64 = 24;
const TERMINAL_MIN_CHARS: u16 = 40;

#[derive(Clone, Copy, Debug)]
pub struct Output {
    pub json: bool,
}

impl Output {
    pub fn new(json: bool) -> Output {
        Output { json }
    }

    /// A remark beside the result, for a person.
    pub fn remark(self, text: &str) {
        if !self.json {
            eprintln!("{}", clean(text));
        }
    }

    /// Whether a progress bar would be seen.
    pub fn shows_progress(self) -> bool {
        !self.json && io::stderr().is_terminal()
    }
}

/// Writes to standard output. A reader that went away is not an error; `println!` would panic.
pub fn out(text: &str) -> Result<(), Failure> {
    out_bytes(text.as_bytes())
}

pub fn out_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(|e| Failure::output(&e))
}

pub fn line(text: &str) -> Result<(), Failure> {
    out(&format!("{text}\n"))
}

/// Text of others made safe for a terminal: escape sequences could rewrite what is on it.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// `waiting` is why nothing of it is started now.
pub fn job(job: &Job, ingest: Option<&Ingest>, waiting: Option<&str>) -> Result<(), Failure> {
    let mut rows = job_rows(job, ingest);
    rows.extend(waiting.map(|why| ("waiting".to_owned(), why.to_owned())));
    line(&facts(rows))
}

/// Names and values: in a frame that fits a terminal, plain for anything else.
pub fn facts(rows: Vec<(String, String)>) -> String {
    let mut table = plain_table();
    // Some terminals do not say how wide they are.
    if io::stdout().is_terminal() && table.width().is_some_and(|width| width >= TERMINAL_MIN_CHARS) {
        table.load_style(presets::UTF8_BORDERS_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    }
    for (name, value) in rows {
        table.add_row([name, clean(&value)]);
    }
    table_text(table)
}

/// Columns and nothing else: it can be printed in parts, and no line is broken to fit a terminal that may not be there.
pub fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table
}

pub fn table_text(mut table: Table) -> String {
    if table.style() == presets::NOTHING {
        for column in table.column_iter_mut() {
            // Nothing before the first word: `grep '^...'`.
            column.set_padding((0, 2));
        }
    }
    table.trim_fmt()
}

/// A table that is printed in parts keeps its shape from part to part.
pub fn fix_widths(table: &mut Table, widths: impl Iterator<Item = u16>) {
    table.set_constraints(widths.map(|width| ColumnConstraint::LowerBoundary(Width::Fixed(width))));
}

fn job_rows(job: &Job, ingest: Option<&Ingest>) -> Vec<(String, String)> {
    let rows = [
        ("job", Some(job.job_id.to_string())),
        ("name", job.name.clone()),
        ("external id", job.external_id.clone()),
        ("status", Some(job.status.to_string())),
        // Only a scheduled job has these, and one that fires no more only the first.
        ("schedule", job.schedule_state.as_ref().map(|state| state.to_string())),
        ("next run", job.next_scheduled_run.map(|at| at.to_string())),
        ("created", Some(job.created_at.to_string())),
        ("updated", Some(job.updated_at.to_string())),
    ];
    let given = |(name, value): (&str, Option<String>)| Some((name.to_owned(), value?));
    let mut rows: Vec<_> = rows.into_iter().filter_map(given).collect();
    if let Some(run) = &job.latest_run {
        rows.extend(run_rows(run));
    }
    rows.extend(ingest.into_iter().flat_map(ingest_rows));
    rows
}

fn ingest_rows(ingest: &Ingest) -> Vec<(String, String)> {
    let state = match ingest::share(ingest) {
        Some((read, size)) if ingest.state == IngestState::Reading => {
            format!("reading, {}%", read * 100 / size)
        }
        Some(_) | None => ingest.state.to_string(),
    };
    let Ingest { rows_read, rows_accepted, rows_rejected, .. } = ingest;
    let rows = format!("{rows_read} read, {rows_accepted} accepted, {rows_rejected} rejected");
    let mut lines = vec![("list".to_owned(), state), ("rows".to_owned(), rows)];
    for RowWarning { field, rows, .. } in &ingest.warnings {
        lines.push(("ignored field".to_owned(), format!("{field}, in {rows} rows")));
    }
    if let Some(more) = ingest.more_warnings.filter(|more| *more > 0) {
        lines.push(("ignored field".to_owned(), format!("others, {more} times")));
    }
    if let Some(trouble) = ingest::trouble(ingest) {
        lines.push(("list error".to_owned(), trouble));
    }
    lines
}

fn run_rows(run: &Run) -> Vec<(String, String)> {
    let row = |name: &str, value: String| (name.to_owned(), value);
    let mut rows = vec![
        row("run", format!("{} (number {})", run.run_id, run.run_sequence)),
        row("run status", state(run)),
        row("progress", progress(&run.stats)),
        row("successful", run.stats.successful.to_string()),
        row("failed", run.stats.failed.to_string()),
    ];
    rows.extend(run.stats.failure_reasons.iter().map(|(class, n)| (format!("  {class}"), n.to_string())));
    if run.stats.inconsistent {
        let damaged = "damaged: more is done than there is, so the counts are cut to fit; `conveyor audit` says what is wrong";
        rows.push(row("counts", damaged.to_owned()));
    }
    if let Some(Spend { credits, cost }) = &run.stats.spend {
        rows.push(row("spent", format!("{cost} ({credits} credits)")));
    }
    if let Some(PauseReason { code, detail }) = run.pause_reason.as_ref().filter(|_| run.is_paused()) {
        rows.push(row("paused by", format!("{code}: {detail}")));
    }
    if let Some(reason) = &run.failure_reason {
        rows.push(row("failure", reason.to_string()));
    }
    if let Some(detail) = &run.failure_detail {
        rows.push(row("detail", detail.clone()));
    }
    rows
}

/// Its status, and whether it is paused in it.
pub fn state(run: &Run) -> String {
    let paused = if run.is_paused() { ", paused" } else { "" };
    format!("{}{paused}", run.status)
}

/// `[######..................] 25/100 (25%)`; of a list that nobody has counted, `25/26+ (still counting)`.
pub fn progress(stats: &Stats) -> String {
    let Stats { total, completed, .. } = *stats;
    if stats.total_is_final == Some(false) {
        return format!("{completed}/{total}+ (still counting)");
    }
    let (total, completed) = (u64::from(total), u64::from(completed));
    let share = |of: u64| (completed.min(total) * of).checked_div(total).unwrap_or(0);
    let done = "#".repeat(share(BAR_CHARS) as usize);
    let left = ".".repeat((BAR_CHARS - share(BAR_CHARS)) as usize);
    format!("[{done}{left}] {completed}/{total} ({}%)", share(100))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::tests;
    use serde_json::json;

    fn stats(completed: u32, total: u32, is_final: Option<bool>) -> Stats {
        let stats = json!({"total": total, "completed": completed, "successful": completed, "failed": 0,
                           "total_is_final": is_final});
        serde_json::from_value(stats).unwrap()
    }

    #[test]
    fn progress_never_says_done_too_early() {
        assert_eq!(progress(&stats(0, 0, None)), "[........................] 0/0 (0%)");
        assert_eq!(progress(&stats(25, 100, None)), "[######..................] 25/100 (25%)");
        assert_eq!(progress(&stats(9_998, 9_999, None)), "[#######################.] 9998/9999 (99%)");
        assert_eq!(progress(&stats(3, 3, None)), "[########################] 3/3 (100%)");
        assert_eq!(progress(&stats(0, 1, Some(false))), "0/1+ (still counting)");
    }

    #[test]
    fn what_was_spent_and_why_nothing_goes_on_are_shown() {
        let mut run = tests::run_of("running");
        run["pause_state"] = json!("paused");
        run["pause_reason"] = json!({"code": "failure_ratio", "detail": "11 of 20 tasks failed."});
        run["stats"]["spend"] = json!({"credits": 20, "cost": 0.0056});
        let run: Run = serde_json::from_value(run).unwrap();
        let rows = run_rows(&run);
        let value = |name: &str| rows.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
        assert_eq!(value("spent"), Some("0.0056 (20 credits)"));
        assert_eq!(value("paused by"), Some("failure_ratio: 11 of 20 tasks failed."));
    }

    #[test]
    fn a_job_is_shown_with_its_run_and_reasons() {
        let mut job = tests::job("failed");
        job["name"] = json!("n");
        let run = &mut job["latest_run"];
        run["pause_state"] = json!("paused");
        run["failure_reason"] = json!("insufficient_credits");
        run["stats"] = json!({"total": 4, "completed": 2, "successful": 1, "failed": 1, "failure_reasons": {"blocked": 1},
                              "inconsistent": true});
        let job: Job = serde_json::from_value(job).unwrap();
        let ingest: Ingest = serde_json::from_value(tests::ingest(json!({
            "state": "reading", "rows_read": 5, "rows_accepted": 4, "rows_rejected": 1, "bytes_read": 50,
            "size_bytes": 200, "compression": "none", "last_error": "the store does not answer",
            "warnings": [{"code": "unknown_field", "field": "urll", "rows": 3}],
        })))
        .unwrap();
        let rows = job_rows(&job, Some(&ingest));
        let value = |name: &str| rows.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
        assert_eq!(value("name"), Some("n"));
        assert_eq!(value("run status"), Some("failed"), "a run that has ended is not paused");
        assert_eq!(value("external id"), None);
        assert_eq!(value("  blocked"), Some("1"));
        assert_eq!(value("failure"), Some("insufficient_credits"));
        assert_eq!(value("progress"), Some("[############............] 2/4 (50%)"));
        assert_eq!(value("list"), Some("reading, 25%"));
        assert_eq!(value("rows"), Some("5 read, 4 accepted, 1 rejected"));
        assert_eq!(value("list error"), Some("the store does not answer"));
        assert_eq!(value("ignored field"), Some("urll, in 3 rows"));
        assert!(value("counts").unwrap().contains("`conveyor audit`"));
    }
}
