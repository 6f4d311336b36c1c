//! Standard output: tables for people, one document for programs.

use super::document::{Job, Run, Stats};
use super::failure::Failure;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};
use std::io::{self, IsTerminal, Write};

const BAR_CHARS: u64 = 24;

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
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|e| Failure::output(&e))
}

pub fn line(text: &str) -> Result<(), Failure> {
    out(&format!("{text}\n"))
}

/// Text of others made safe for a terminal: escape sequences could rewrite what is on it.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

pub fn job(job: &Job) -> Result<(), Failure> {
    let mut table = plain_table();
    if io::stdout().is_terminal() {
        table.load_style(presets::UTF8_BORDERS_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    }
    for (name, value) in job_rows(job) {
        table.add_row([name, clean(&value)]);
    }
    print_table(table)
}

/// Columns and nothing else: it can be printed in parts, and no line is broken to fit a terminal that may not be there.
pub fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table
}

pub fn print_table(mut table: Table) -> Result<(), Failure> {
    if table.style() == presets::NOTHING {
        for column in table.column_iter_mut() {
            // Nothing before the first word: `grep '^...'`.
            column.set_padding((0, 2));
        }
    }
    line(&table.trim_fmt())
}

/// A table that is printed in parts keeps its shape from part to part.
pub fn fix_widths(table: &mut Table, widths: &[u16]) {
    let fixed = |w: &u16| ColumnConstraint::LowerBoundary(Width::Fixed(*w));
    table.set_constraints(widths.iter().map(fixed));
}

fn job_rows(job: &Job) -> Vec<(String, String)> {
    let mut rows = vec![("job", job.job_id.clone())];
    let mut add = |name, value: &Option<String>| {
        if let Some(value) = value {
            rows.push((name, value.clone()));
        }
    };
    add("name", &job.name);
    add("external id", &job.external_id);
    add("status", &Some(job.status.clone()));
    add("created", &job.created_at);
    add("updated", &job.updated_at);
    let mut rows: Vec<_> = rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    if let Some(run) = &job.latest_run {
        rows.extend(run_rows(run));
    }
    rows
}

fn run_rows(run: &Run) -> Vec<(String, String)> {
    let row = |name: &str, value: String| (name.to_owned(), value);
    let mut rows = vec![
        row("run", format!("{} (number {})", run.run_id, run.run_sequence)),
        row("run status", run.status.clone()),
        row("progress", progress(&run.stats)),
        row("successful", run.stats.successful.to_string()),
        row("failed", run.stats.failed.to_string()),
    ];
    rows.extend(run.stats.failure_reasons.iter().map(|(class, n)| (format!("  {class}"), n.to_string())));
    if let Some(reason) = &run.failure_reason {
        rows.push(row("failure", reason.clone()));
    }
    if let Some(detail) = &run.failure_detail {
        rows.push(row("detail", detail.clone()));
    }
    rows
}

/// `[######..................] 25/100 (25%)`
pub fn progress(stats: &Stats) -> String {
    let Stats { total, completed, .. } = *stats;
    let share = |of: u64| (completed.min(total) * of).checked_div(total).unwrap_or(0);
    let done = "#".repeat(share(BAR_CHARS) as usize);
    let left = ".".repeat((BAR_CHARS - share(BAR_CHARS)) as usize);
    format!("[{done}{left}] {completed}/{total} ({}%)", share(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(completed: u64, total: u64) -> Stats {
        Stats { total, completed, ..Stats::default() }
    }

    #[test]
    fn progress_never_says_done_too_early() {
        assert_eq!(progress(&stats(0, 0)), "[........................] 0/0 (0%)");
        assert_eq!(progress(&stats(25, 100)), "[######..................] 25/100 (25%)");
        assert_eq!(progress(&stats(9_998, 9_999)), "[#######################.] 9998/9999 (99%)");
        assert_eq!(progress(&stats(3, 3)), "[########################] 3/3 (100%)");
    }

    #[test]
    fn a_job_is_shown_with_its_run_and_reasons() {
        let job: Job = serde_json::from_value(serde_json::json!({
            "job_id": "J", "status": "closed", "name": "n", "type": "regular",
            "latest_run": {"run_id": "R", "run_sequence": 1, "status": "failed", "failure_reason": "insufficient_credits",
                "stats": {"total": 4, "completed": 2, "successful": 1, "failed": 1, "failure_reasons": {"blocked": 1}}},
        }))
        .unwrap();
        let rows = job_rows(&job);
        let value = |name: &str| rows.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
        assert_eq!(value("name"), Some("n"));
        assert_eq!(value("external id"), None);
        assert_eq!(value("  blocked"), Some("1"));
        assert_eq!(value("failure"), Some("insufficient_credits"));
        assert_eq!(value("progress"), Some("[############............] 2/4 (50%)"));
    }
}
