//! What every step took, in this run and in earlier ones: `target/xtask/times.tsv`, a line a step, never rewritten.

use crate::report::Outcome;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const FILE: &str = "times.tsv";
const HEADER: &str = "run\tstep\tresult\twall_s\tcpu_s\ttests\n";

/// What a step took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Taken {
    pub wall_s: f64,
    pub cpu_s: f64,
}

/// What each step took when it last passed.
#[derive(Debug, Default)]
pub struct Times(Vec<(String, Taken)>);

impl Times {
    pub fn read(workspace: &Workspace) -> Times {
        Times::parse(&fs::read_to_string(workspace.own(FILE)).unwrap_or_default())
    }

    fn parse(text: &str) -> Times {
        let mut times = Vec::new();
        for line in text.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            if let [_, step, "passed", wall, cpu, ..] = fields[..]
                && let (Ok(wall_s), Ok(cpu_s)) = (wall.parse(), cpu.parse())
            {
                times.retain(|(name, _)| name != step);
                times.push((step.to_owned(), Taken { wall_s, cpu_s }));
            }
        }
        Times(times)
    }

    pub fn of(&self, step: &str) -> Option<Taken> {
        self.0.iter().find(|(name, _)| name == step).map(|(_, taken)| *taken)
    }
}

/// Adds this run. The name of a run is when it ended.
pub fn append(workspace: &Workspace, outcomes: &[Outcome]) -> Result<()> {
    let path = workspace.own(FILE);
    let new = !path.exists();
    let mut file = File::options().create(true).append(true).open(&path)?;
    let mut text = if new { HEADER.to_owned() } else { String::new() };
    let run = ended_at().as_secs();
    for outcome in outcomes {
        if let Some(taken) = outcome.taken() {
            text += &format!(
                "{run}\t{}\t{}\t{:.1}\t{:.1}\t{}\n",
                outcome.step,
                outcome.result(),
                taken.wall_s,
                taken.cpu_s,
                outcome.tests()
            );
        }
    }
    file.write_all(text.as_bytes()).with_context(|| path.display().to_string())
}

#[expect(clippy::disallowed_methods, reason = "names a run of real processes; nothing simulates it")]
fn ended_at() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_run_that_passed_counts() {
        let times = Times::parse(&format!(
            "{HEADER}1\tunit\tpassed\t16.0\t20.5\t900\n2\tunit\tpassed\t15.0\t19.5\t901\n3\tunit\tFAILED\t1.0\t1.0\t0\n"
        ));
        assert_eq!(times.of("unit"), Some(Taken { wall_s: 15.0, cpu_s: 19.5 }));
        assert_eq!(times.of("aws"), None);
        assert_eq!(Times::parse("half a li").of("unit"), None);
    }
}
