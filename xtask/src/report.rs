//! What is said about the steps: the list before, and the list with results after.

use crate::steps::Step;
use crate::times::{Taken, Times};
use std::fmt::Write;
use std::time::Duration;

#[derive(Debug)]
pub struct Outcome {
    pub step: &'static str,
    on: String,
    end: End,
    tests: u64,
}

#[derive(Debug)]
enum End {
    Passed(Taken),
    Failed(Taken),
    NotRun,
    /// Of what is not a step.
    Note(Taken),
    /// The filter found nothing there.
    NoMatch,
}

fn taken(wall: Duration, cpu: Duration) -> Taken {
    Taken { wall_s: wall.as_secs_f64(), cpu_s: cpu.as_secs_f64() }
}

impl Outcome {
    pub fn ran(step: &Step, passed: bool, wall: Duration, cpu: Duration, tests: u64) -> Outcome {
        let taken = taken(wall, cpu);
        let end = if passed { End::Passed(taken) } else { End::Failed(taken) };
        Outcome { step: step.name, on: step.on.to_owned(), end, tests }
    }

    pub fn of_build(passed: bool, wall: Duration, cpu: Duration) -> Outcome {
        let taken = taken(wall, cpu);
        let end = if passed { End::Passed(taken) } else { End::Failed(taken) };
        Outcome { step: "build", on: "the workspace, linted as it is compiled".to_owned(), end, tests: 0 }
    }

    pub fn note(what: &'static str, on: String, cpu: Duration) -> Outcome {
        Outcome { step: what, on, end: End::Note(taken(Duration::ZERO, cpu)), tests: 0 }
    }

    /// A step that could not be tried because an earlier one failed.
    pub fn not_run(step: &Step, because: &str) -> Outcome {
        Outcome { step: step.name, on: format!("not run: {because} failed"), end: End::NotRun, tests: 0 }
    }

    pub fn no_match(step: &Step) -> Outcome {
        Outcome { step: step.name, on: step.on.to_owned(), end: End::NoMatch, tests: 0 }
    }

    pub fn is_match(&self) -> bool {
        !matches!(self.end, End::NoMatch)
    }

    /// Whether it takes nothing from a run that passed.
    pub fn is_well(&self) -> bool {
        !matches!(self.end, End::Failed(_) | End::NotRun)
    }

    pub fn result(&self) -> &'static str {
        match self.end {
            End::Passed(_) => "passed",
            End::Failed(_) => "FAILED",
            End::NotRun => "skipped",
            End::Note(_) | End::NoMatch => "",
        }
    }

    pub fn taken(&self) -> Option<Taken> {
        match self.end {
            End::Passed(taken) | End::Failed(taken) | End::Note(taken) => Some(taken),
            End::NotRun | End::NoMatch => None,
        }
    }

    pub fn tests(&self) -> u64 {
        self.tests
    }
}

/// The steps, what they do, and what they took when they last passed.
pub fn steps(steps: &[Step], times: &Times) -> String {
    let row = |name: &str, what: &str, on: &str| {
        let [wall, cpu] = seconds(times.of(name));
        [name.to_owned(), wall, cpu, what.to_owned(), on.to_owned()]
    };
    let build =
        row("build", "everything builds; always the first", "the workspace, linted as it is compiled");
    let rows = std::iter::once(build).chain(steps.iter().map(|step| row(step.name, step.what, step.on)));
    columns(["step", "last s", "cpu s", "checks", "on"], rows)
}

/// Every step with its result and what it took before, and a closing line for whoever reads only that.
pub fn summary(outcomes: &[Outcome], before: &Times, wall: Duration) -> String {
    let row = |o: &Outcome| {
        let [wall, cpu] = seconds(o.taken());
        let [wall_before, cpu_before] = seconds(before.of(o.step));
        let tests = if o.tests > 0 { o.tests.to_string() } else { "-".to_owned() };
        [o.step.to_owned(), o.on.clone(), o.result().to_owned(), tests, wall, cpu, wall_before, cpu_before]
    };
    let header = ["step", "on", "result", "tests", "wall s", "cpu s", "before s", "cpu s"];
    let mut text = columns(header, outcomes.iter().filter(|o| o.is_match()).map(row));
    let cpu: f64 = outcomes.iter().filter_map(Outcome::taken).map(|taken| taken.cpu_s).sum();
    let _ = writeln!(text, "\nall: {:.0} s of wall time, {cpu:.0} s of CPU time", wall.as_secs_f64());
    let count = |result: &str| outcomes.iter().filter(|o| o.result() == result).count();
    let _ = write!(text, "\n{} passed, {} failed", count("passed"), count("FAILED"));
    if count("skipped") > 0 {
        let _ = write!(text, ", {} skipped", count("skipped"));
    }
    text.push('\n');
    text
}

fn seconds(taken: Option<Taken>) -> [String; 2] {
    let one = |value: f64| if value > 0.0 { format!("{value:.1}") } else { "-".to_owned() };
    taken.map_or(["-".to_owned(), "-".to_owned()], |taken| [one(taken.wall_s), one(taken.cpu_s)])
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
        let mut outcomes = vec![
            Outcome::of_build(true, second * 5, second * 9),
            Outcome::ran(&STEPS[0], true, second, second, 0),
            Outcome::ran(&STEPS[2], false, second * 75, second * 90, 12),
            Outcome::no_match(&STEPS[4]),
            Outcome::note("servers running", "dynoxide".to_owned(), second),
        ];
        let text = summary(&outcomes, &Times::default(), second * 80);
        assert_eq!(text.lines().last(), Some("2 passed, 1 failed"));
        let row: Vec<&str> = text.lines().nth(3).unwrap().split_whitespace().collect();
        assert_eq!(row, ["unit", "every", "crate", "FAILED", "12", "75.0", "90.0", "-", "-"]);
        assert!(!text.contains(STEPS[4].name) && text.contains("servers running"));
        assert!(text.contains("101 s of CPU time"), "{text}");
        outcomes.push(Outcome::not_run(&STEPS[3], "build"));
        assert_eq!(
            summary(&outcomes, &Times::default(), second).lines().last(),
            Some("2 passed, 1 failed, 1 skipped")
        );
        assert!(!outcomes.iter().all(Outcome::is_well));
    }

    #[test]
    fn a_list_lines_up() {
        let text = columns(["a", "b"], [["long".to_owned(), "x".to_owned()]].into_iter());
        assert_eq!(text, "a     b\nlong  x\n");
        assert_eq!(steps(&STEPS, &Times::default()).lines().count(), STEPS.len() + 2);
    }
}
