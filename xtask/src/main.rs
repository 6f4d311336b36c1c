//! `cargo xtask`: the chores of this repository, of which there is one, the test command.
//!
//! It is built before anything else and must not depend on the crates that it tests, save for the one that installs and
//! starts the servers that tests need.

mod aws;
mod fuzz;
mod python;
mod report;
mod steps;
mod workspace;

use anyhow::Result;
use clap::{Parser, Subcommand};
use report::Outcome;
use std::process::ExitCode;
use std::time::Instant;
use steps::{STEPS, Step};
use workspace::Workspace;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "Chores of this repository")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check everything: format, lints, build, and every test
    ///
    /// Runs each step in turn with its output, and ends with a list of what ran, on what, with which result, and a line
    /// "N passed, N failed". What the tests need beyond the toolchain is installed under the target directory. If the
    /// build fails nothing after it can run; any other failure is noted, and the rest still runs.
    Test {
        /// Run only this step; can be repeated
        #[arg(long, value_name = "STEP", value_parser = steps::names())]
        only: Vec<String>,
        /// Name the steps and what they do, and run none
        #[arg(long)]
        list: bool,
    },
}

fn main() -> Result<ExitCode> {
    match Cli::parse().command {
        Command::Test { list: true, .. } => {
            print!("{}", report::steps(&STEPS));
            Ok(ExitCode::SUCCESS)
        }
        Command::Test { only, list: false } => test(&only),
    }
}

fn test(only: &[String]) -> Result<ExitCode> {
    let workspace = Workspace::find()?;
    let chosen = STEPS.iter().filter(|step| only.is_empty() || only.iter().any(|name| name == step.name));
    let outcomes = run(chosen, |step| (step.run)(&workspace));
    print!("\n{}", report::summary(&outcomes));
    Ok(if outcomes.iter().all(Outcome::passed) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs steps in order. Once a step that others stand on has failed, the rest are not tried.
fn run<'a>(steps: impl Iterator<Item = &'a Step>, mut go: impl FnMut(&Step) -> Result<()>) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut stopped_by = None;
    for step in steps {
        if let Some(name) = stopped_by {
            outcomes.push(Outcome::not_run(step, name));
            continue;
        }
        println!("\n=== {}: {}", step.name, step.what);
        let started = now();
        let error = go(step).err();
        if let Some(error) = &error {
            eprintln!("=== {} failed: {error:#}", step.name);
            stopped_by = step.others_need_it.then_some(step.name);
        }
        outcomes.push(Outcome::ran(step, error.is_none(), started.elapsed()));
    }
    outcomes
}

#[expect(
    clippy::disallowed_methods,
    reason = "the wall time of real processes is what is measured; nothing simulates it"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;
    use clap::CommandFactory;

    fn results(fails: &[&str]) -> Vec<(&'static str, &'static str)> {
        let outcomes =
            run(STEPS.iter(), |step| if fails.contains(&step.name) { bail!("broken") } else { Ok(()) });
        outcomes.iter().map(|o| (o.step, o.result())).collect()
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
        assert!(Cli::try_parse_from(["xtask", "test", "--only", "unit", "--only", "client"]).is_ok());
        assert!(Cli::try_parse_from(["xtask", "test", "--only", "unti"]).is_err());
    }

    #[test]
    fn a_failed_test_does_not_hide_the_others() {
        let seen = results(&["lints", "unit"]);
        assert_eq!(seen.len(), STEPS.len());
        assert!(seen.iter().all(|(_, result)| *result != "skipped"));
        assert_eq!(seen.iter().filter(|(_, result)| *result == "FAILED").count(), 2);
    }

    #[test]
    fn nothing_runs_on_a_broken_build() {
        let seen = results(&["build"]);
        let at = seen.iter().position(|(step, _)| *step == "build").unwrap();
        assert_eq!(seen[at].1, "FAILED");
        assert!(seen[at + 1..].iter().all(|(_, result)| *result == "skipped"));
    }
}
