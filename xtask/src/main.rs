//! `cargo xtask`: the chores of this repository: the test command, the soak, and the mutations that show what tests catch.
//!
//! It is built before anything else and must not depend on the crates that it tests, save for the one that installs and
//! starts the servers that tests need.

mod aws;
mod build;
#[cfg(test)]
mod citations;
mod exec;
mod fuzz;
mod lanes;
mod machine;
mod mutations;
mod packages;
mod report;
mod rust_tests;
mod soak;
mod steps;
mod times;
mod workspace;

use anyhow::{Result, ensure};
use clap::{Args, Parser, Subcommand};
use lanes::Mode;
use report::Outcome;
use std::process::ExitCode;
use steps::{STEPS, Step};
use times::Times;
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
    /// Builds the workspace, then runs the steps in two lanes side by side, and ends with a list of what ran, on what, with
    /// which result, in how many seconds of wall and CPU time, and a line "N passed, N failed". What the tests need beyond
    /// the toolchain is installed under the target directory while the build compiles. If the build fails nothing can run;
    /// any other failure is noted, and the rest still runs. Logs are in target/xtask/logs, times in target/xtask/times.tsv.
    Test(TestArgs),
    /// Run what needs minutes by nature: full-size lists, long simulations, chaos, fuzzing
    Soak(soak::SoakArgs),
    /// Show that the tests catch twelve known bugs, kept as patches in `mutations/`, one per invariant
    Mutations(mutations::MutationArgs),
}

#[derive(Debug, Args)]
struct TestArgs {
    /// Run only this step, after the build; can be repeated
    #[arg(long, value_name = "STEP", value_parser = steps::names())]
    only: Vec<String>,
    /// Run the fast part alone, for the edit loop: format, lints, unit and integration tests that need no server
    #[arg(long, conflicts_with = "only")]
    quick: bool,
    /// Run only tests whose names have this part, in whichever steps they are
    #[arg(long, value_name = "NAME", conflicts_with = "quick")]
    filter: Option<String>,
    /// Name the steps, what they do and what they took when they last passed, and run none
    #[arg(long)]
    list: bool,
}

fn main() -> Result<ExitCode> {
    match Cli::parse().command {
        Command::Test(TestArgs { list: true, .. }) => {
            print!("{}", report::steps(&STEPS, &Times::read(&Workspace::find()?)));
            Ok(ExitCode::SUCCESS)
        }
        Command::Test(args) => test(&args),
        Command::Soak(args) => soak::run(&args),
        Command::Mutations(args) => mutations::run(&args),
    }
}

fn test(args: &TestArgs) -> Result<ExitCode> {
    let workspace = Workspace::find()?;
    let chosen: Vec<&'static Step> = STEPS.iter().filter(|step| args.wants(step)).collect();
    let started = lanes::now();
    let mode = Mode { filter: args.filter.as_deref(), quick: args.quick, soak_time: None };
    let outcomes = lanes::run(&workspace, &chosen, mode)?;
    let before = Times::read(&workspace);
    if args.filter.is_none() {
        times::append(&workspace, &outcomes)?;
    }
    print!("\n{}", report::summary(&outcomes, &before, started.elapsed()));
    if let Some(filter) = &args.filter {
        let steps = outcomes.iter().filter(|outcome| outcome.is_match()).count();
        ensure!(steps > 1, "no test has `{filter}` in its name");
    }
    Ok(if outcomes.iter().all(Outcome::is_well) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl TestArgs {
    fn wants(&self, step: &Step) -> bool {
        let named = self.only.iter().any(|name| name == step.name);
        // The checks of files have no tests with names.
        let can_match = self.filter.is_none() || step.lane != steps::Lane::First && step.name != "servers";
        (self.only.is_empty() || named) && (!self.quick || step.quick) && can_match
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn wanted(words: &[&str]) -> Vec<&'static str> {
        let cli = Cli::try_parse_from([&["xtask", "test"], words].concat());
        let Ok(Cli { command: Command::Test(args) }) = cli else { panic!("{words:?} are refused") };
        STEPS.iter().filter(|step| args.wants(step)).map(|step| step.name).collect()
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
        assert!(Cli::try_parse_from(["xtask", "test", "--only", "unti"]).is_err());
        assert!(Cli::try_parse_from(["xtask", "test", "--quick", "--only", "unit"]).is_err());
    }

    #[test]
    fn steps_are_chosen() {
        assert_eq!(wanted(&[]).len(), STEPS.len());
        assert_eq!(wanted(&["--only", "unit", "--only", "client"]), ["unit", "client"]);
        assert_eq!(wanted(&["--quick"]), ["format", "lints", "unit", "integration"]);
        let filtered = wanted(&["--filter", "crash"]);
        assert!(filtered.contains(&"client-aws") && !filtered.contains(&"format"));
        assert_eq!(wanted(&["--only", "process", "--filter", "crash"]), ["process"]);
    }
}
