//! Test executables of cargo, run directly: no step waits for cargo's lock, and none compiles behind another's back.

use crate::build::TestBinary;
use crate::steps::Run;
use anyhow::{Context, Result, bail, ensure};
use std::process::Command;

/// Which tests of which executables, and how.
#[derive(Clone, Copy, Debug)]
pub struct Tests {
    /// By the folder of the package and the name of the target.
    pub of: fn(&TestBinary) -> bool,
    /// What the path of a test begins with, if not all are meant.
    pub under: &'static [&'static str],
    /// Tests at once. More than there are cores where tests mostly wait.
    pub threads: usize,
}

impl Tests {
    pub const fn of(of: fn(&TestBinary) -> bool) -> Tests {
        Tests { of, under: &[], threads: 4 }
    }

    /// Runs them. All executables are tried, also after one failed.
    pub fn run(&self, run: &Run, variables: &[(&str, String)]) -> Result<()> {
        let binaries: Vec<&TestBinary> = run.built.tests.iter().filter(|binary| (self.of)(binary)).collect();
        ensure!(!binaries.is_empty(), "there are no such tests");
        let before = run.log.tests();
        let mut failed = Vec::new();
        for binary in binaries {
            let Some(mut command) = self.command(run, binary)? else { continue };
            command.envs(variables.iter().map(|(name, value)| (name, value)));
            run.matched();
            run.log.say(&format!("\n--- {} of {}", binary.target, binary.package));
            if let Err(error) = run.log.run(&mut command) {
                run.log.say(&format!("{error:#}"));
                failed.push(binary.target.clone());
            }
        }
        if !failed.is_empty() {
            bail!("failed: {}", failed.join(", "));
        }
        ensure!(
            run.log.tests() > before || run.mode.filter.is_some(),
            "no test ran: the step selects none of those that were built"
        );
        Ok(())
    }

    /// The command that runs what is meant of one executable; none if nothing is.
    fn command(&self, run: &Run, binary: &TestBinary) -> Result<Option<Command>> {
        let mut command = command_of(run, binary);
        command.arg(format!("--test-threads={}", self.threads));
        if run.mode.soak_time.is_some() {
            command.env("CONVEYOR_SOAK", "1");
        }
        for name in run.skip {
            command.args(["--skip", name]);
        }
        if self.under.is_empty() && run.mode.filter.is_none() {
            return Ok(Some(command));
        }
        let names = self.names(run, binary)?;
        command.arg("--exact").args(&names);
        Ok((!names.is_empty()).then_some(command))
    }

    fn names(&self, run: &Run, binary: &TestBinary) -> Result<Vec<String>> {
        let output = command_of(run, binary).args(["--list", "--format=terse"]).output();
        let output = output.with_context(|| format!("cannot run {}", binary.executable.display()))?;
        ensure!(output.status.success(), "{} does not list its tests", binary.target);
        let listed = String::from_utf8_lossy(&output.stdout);
        let names = listed.lines().filter_map(|line| line.strip_suffix(": test"));
        Ok(names
            .filter(|name| {
                self.means(name, run.mode.filter) && !run.skip.iter().any(|part| name.contains(part))
            })
            .map(str::to_owned)
            .collect())
    }

    fn means(&self, name: &str, filter: Option<&str>) -> bool {
        let under = self.under.is_empty() || self.under.iter().any(|prefix| name.starts_with(prefix));
        under && filter.is_none_or(|part| name.contains(part))
    }
}

/// As cargo would run it.
fn command_of(run: &Run, binary: &TestBinary) -> Command {
    let folder = run.workspace.root.join(&binary.package);
    let mut command = Command::new(&binary.executable);
    command.current_dir(&folder).env("CARGO_MANIFEST_DIR", &folder).env("CARGO", &run.workspace.cargo);
    command.env("TMPDIR", &run.scratch);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_within_what_the_step_means() {
        let all = Tests::of(|_| true);
        assert!(all.means("a::b", None) && all.means("a::b", Some("b")) && !all.means("a::b", Some("c")));
        let part = Tests { under: &["both::", "aws::"], ..all };
        assert!(part.means("both::crash", None) && part.means("aws::chaos", Some("chaos")));
        assert!(!part.means("embedded::crash", None) && !part.means("embedded::crash", Some("crash")));
    }
}
