//! What is said about the steps: the list before, and the list with results after.

use crate::steps::Step;
use std::fmt::Write;
use std::time::Duration;

pub struct Outcome {
    pub step: &'static str,
    on: String,
    end: End,
}

enum End {
    Passed(Duration),
    Failed(Duration),
    NotRun,
}

impl Outcome {
    pub fn ran(step: &Step, passed: bool, took: Duration) -> Outcome {
        let end = if passed { End::Passed(took) } else { End::Failed(took) };
        Outcome { step: step.name, on: step.on.to_owned(), end }
    }

    /// A step that could not be tried because an earlier one failed.
    pub fn not_run(step: &Step, because: &str) -> Outcome {
        Outcome { step: step.name, on: format!("not run: {because} failed"), end: End::NotRun }
    }

    pub fn passed(&self) -> bool {
        matches!(self.end, End::Passed(_))
    }

    pub fn result(&self) -> &'static str {
        match self.end {
            End::Passed(_) => "passed",
            End::Failed(_) => "FAILED",
            End::NotRun => "skipped",
        }
    }

    fn seconds(&self) -> String {
        match self.end {
            End::Passed(took) | End::Failed(took) => format!("{:.1}", took.as_secs_f64()),
            End::NotRun => "-".to_owned(),
        }
    }
}

/// The steps and what they do.
pub fn steps(steps: &[Step]) -> String {
    let rows = steps.iter().map(|s| [s.name.to_owned(), s.what.to_owned(), s.on.to_owned()]);
    columns(["step", "checks", "on"], rows)
}

/// Every step with its result, and a closing line for whoever reads only that.
pub fn summary(outcomes: &[Outcome]) -> String {
    let row = |o: &Outcome| [o.step.to_owned(), o.on.clone(), o.result().to_owned(), o.seconds()];
    let mut text = columns(["step", "on", "result", "seconds"], outcomes.iter().map(row));
    let count = |result: &str| outcomes.iter().filter(|o| o.result() == result).count();
    let _ = write!(text, "\n{} passed, {} failed", count("passed"), count("FAILED"));
    if count("skipped") > 0 {
        let _ = write!(text, ", {} skipped", count("skipped"));
    }
    text.push('\n');
    text
}

fn columns<const N: usize>(header: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let rows: Vec<[String; N]> = std::iter::once(header.map(str::to_owned)).chain(rows).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().enumerate().map(|(i, cell)| {
            let width = rows.iter().map(|r| r[i].chars().count()).max().unwrap_or(0);
            format!("{cell:width$}")
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::STEPS;

    #[test]
    fn the_closing_line_counts_steps() {
        let second = Duration::from_secs(1);
        let mut outcomes =
            vec![Outcome::ran(&STEPS[0], true, second), Outcome::ran(&STEPS[2], false, second * 75)];
        let text = summary(&outcomes);
        assert_eq!(text.lines().last(), Some("1 passed, 1 failed"));
        let row: Vec<&str> = text.lines().nth(2).unwrap().split_whitespace().collect();
        assert_eq!(row, ["build", "the", "workspace", "FAILED", "75.0"]);
        outcomes.push(Outcome::not_run(&STEPS[3], "build"));
        assert_eq!(summary(&outcomes).lines().last(), Some("1 passed, 1 failed, 1 skipped"));
        assert!(!outcomes.iter().all(Outcome::passed));
    }

    #[test]
    fn a_list_lines_up() {
        let text = columns(["a", "b"], [["long".to_owned(), "x".to_owned()]].into_iter());
        assert_eq!(text, "a     b\nlong  x\n");
        assert_eq!(steps(&STEPS).lines().count(), STEPS.len() + 1);
    }
}
